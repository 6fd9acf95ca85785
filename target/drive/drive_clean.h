#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/io/object_attribute.h"

// Types of Drive's clean-up and of its loading of an index (drive_clean.cc).
namespace tarn::target {

/// Files and buckets that a drive's index named, at one moment.
struct KnownFiles {
  std::vector<io::FileName> named;  ///< by records and slices; sorted
  std::set<BucketId> dead;          ///< destroyed buckets that there are records or slices of
  std::vector<std::uint32_t> directories;  ///< of data files
};

struct CleanOrder {
  std::set<BucketId> dead;  ///< destroyed buckets
  /// Buckets to clean, unless empty: what is of none of these is left alone, and so is a file
  /// without a bucket.
  std::set<BucketId> only;
};

struct Cleaned {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

/// A file that no record needs, and its attribute.
struct Leftover {
  std::uint64_t size = 0;
  BucketId bucket{};
  std::string name;  ///< empty: an upload that never ended
};

/// Records that were brought into memory.
struct Loaded {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  ///< of these objects
  bool more = false;
  std::string next;  ///< place to go on at in the next call
};

}  // namespace tarn::target
