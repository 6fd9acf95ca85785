#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/api/bucket.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/io/file_system.h"
#include "target/drive/index.h"

namespace tarn::target {

/// The directories of data files (8 hex digits) in which attributes were changed after publication:
/// an empty file each, durable before the first such change. In them the index may be out of date.
inline constexpr const char* kPatchedDirectory = ".tarn/patched";

/// Buckets of which what a drive holds was evicted while the drive was away (docs/decisions/025):
/// of each the objects up to this generation.
using EvictedBuckets = std::map<BucketId, Generation>;

/// Places of names, as far as they are known when a drive is opened.
struct NamePlaces {
  std::map<BucketId, api::Bucket> buckets;  ///< live ones, as they are placed
  std::set<BucketId> spread;                ///< of these: their objects may lie on any drive
  /// True if a uname lives on this drive by placement; null: not known.
  std::function<bool(const std::string& uname)> belongs;
};

/// Report of what a start found and did.
struct RecoveryReport {
  std::uint64_t records = 0;  ///< live objects in the index afterwards
  std::uint64_t bytes = 0;    ///< of the files of these objects
  std::uint64_t tombstones = 0;
  std::uint64_t slices = 0;       ///< of objects, in the index afterwards
  std::uint64_t slice_bytes = 0;  ///< of their files
  std::uint64_t adopted = 0;      ///< complete files that the index did not know, slices too
  std::uint64_t misplaced = 0;   ///< records, tombstones too, of names whose place is another drive
  std::uint64_t unplaced = 0;    ///< records of which that is not known
  std::uint64_t work_files = 0;  ///< unfinished files that were removed
  std::uint64_t stale_files = 0;       ///< replaced or deleted files that were removed
  std::uint64_t lost_records = 0;      ///< records and slices whose file is gone; removed
  std::uint64_t torn_files = 0;        ///< acknowledged without a sync, and not whole; removed
  std::uint64_t unreadable_files = 0;  ///< files whose attribute is damaged; left where they are
  std::uint64_t evicted = 0;           ///< objects that were evicted while it was away; removed
  std::uint64_t newer_metadata = 0;    ///< records that a PATCH had not reached yet; brought up
  std::uint32_t last_directory = 0;
  std::uint32_t files_in_last_directory = 0;
};

/// Makes index and files agree, whatever a crash or a lost index left (docs/architecture.md). A
/// file without `user.tarn` goes. One with it is adopted when its generation is higher than the
/// record's and any tombstone's, and goes otherwise. A record whose file is gone goes. A file that
/// was acknowledged before it was synced (`durability: nosync`) is read, and finished when it is
/// whole; otherwise it is nothing. Slices are judged by slices alone, never by records of objects:
/// of two of one key the higher generation counts, and other code decides whether one is needed.
/// Every start reads every directory (docs/decisions/003): 10^6 names take an estimated second. The
/// attribute is written after the file's bytes are durable, so what has one is complete. Where
/// attributes were changed later (kPatchedDirectory) the one with the higher generation counts,
/// attribute or record. Objects of `evicted` go. All changes are durable when this returns.
/// Blocking.
[[nodiscard]] Result<RecoveryReport> reconcile(io::FileSystem& files, Index& index,
                                               const std::set<BucketId>& dead_buckets,
                                               const EvictedBuckets& evicted,
                                               const std::string& drive, const NamePlaces& places);

}  // namespace tarn::target
