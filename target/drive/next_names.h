#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "target/drive/drive.h"

namespace tarn::target {

/// True of a record whose name is wanted. Called on one of the drive's threads.
using NameFilter = std::function<bool(std::string_view name, const io::ObjectRecord& record)>;

/// A part of the names of a bucket on a drive.
struct NamePage {
  std::vector<std::string> names;  ///< those that are wanted
  std::string last;                ///< the name after which the next page begins
  bool more = false;
};

/// The next page of a bucket's names on a drive: of records after `after`, in byte order, those
/// that `wanted` is true of. A page ends after 1,000 names or 50,000 records; others have their
/// turns between pages. Errors: of Drive::walk.
Task<Result<NamePage>> next_names(Drive& drive, BucketId bucket, std::string after,
                                  NameFilter wanted);

}  // namespace tarn::target
