#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "target/drive/index_pages.h"

namespace tarn::target {

/// Shows records to RecordPages.
struct RecordWalk {
  using Key = std::string_view;
  using Record = io::ObjectRecord;
  using Last = std::string;

  /// Shows `look` the records after a name until it returns false. Errors: of Drive::walk().
  [[nodiscard]] Task<Status> run(
      Drive& drive, BucketId bucket, std::string after,
      std::function<bool(std::string_view, io::ObjectRecord)> look) const {
    auto visit = [look = std::move(look)](std::string_view name,
                                          io::ObjectRecord record) -> Index::Step {
      return {.stop = !look(name, std::move(record)), .skip_to = {}};
    };
    return drive.walk(bucket, "", std::move(after), std::move(visit));
  }
};

/// The records of a bucket on a drive, tombstones included, in byte order of their names, a page at
/// a time (IndexPages).
template <class Item>
using RecordPages = IndexPages<RecordWalk, Item>;

}  // namespace tarn::target
