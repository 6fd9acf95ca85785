#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "target/drive/index_pages.h"

namespace tarn::target {

/// Shows records to RecordPages: of a bucket those that its members say.
struct RecordWalk {
  using Key = std::string_view;
  using Record = io::ObjectRecord;
  using Last = std::string;

  std::string prefix = {};                ///< of the names that it shows
  std::string up_to = {};                 ///< shows no record after this name; empty: all
  TurnFor purpose = TurnFor::background;  ///< whose turns at the drive it takes

  /// Shows `look` the records after a name until it returns false. This must outlive the task.
  /// Errors: of Drive::walk().
  [[nodiscard]] Task<Status> run(
      Drive& drive, BucketId bucket, std::string after,
      std::function<bool(std::string_view, io::ObjectRecord)> look) const {
    auto visit = [this, look = std::move(look)](std::string_view name,
                                                io::ObjectRecord record) -> Index::Step {
      if (!up_to.empty() && name > up_to) return {.stop = true, .skip_to = {}};
      return {.stop = !look(name, std::move(record)), .skip_to = {}};
    };
    return drive.walk(bucket, prefix, std::move(after), std::move(visit), purpose);
  }
};

/// The records of a bucket on a drive, tombstones included, in byte order of their names, a page at
/// a time (IndexPages).
template <class Item>
using RecordPages = IndexPages<RecordWalk, Item>;

}  // namespace tarn::target
