#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "target/drive/drive.h"

namespace tarn::target {

/// A page of RecordPages ends after so many records, or after the one with which it has so many
/// items.
struct PageSize {
  std::size_t records = 50'000;
  std::size_t items = 1'000;
};

/// The records of a bucket on a drive, in byte order of their names, a page at a time: other work
/// has its turns at the drive between pages. Not thread-safe. The drive must outlive it.
template <class Item>
class RecordPages {
 public:
  /// Adds to the items of a page what is wanted of a record: nothing, one item or several. Called
  /// on one of the drive's threads.
  using Take =
      std::function<void(std::string_view name, io::ObjectRecord record, std::vector<Item>& items)>;

  /// `after`: the first record is the first one after this name.
  RecordPages(Drive& drive, BucketId bucket, Take take, PageSize size = {}, std::string after = "")
      : drive_(drive),
        bucket_(bucket),
        take_(std::move(take)),
        size_(size),
        last_(std::move(after)) {}

  /// True until next() has returned the last page.
  [[nodiscard]] bool more() const { return more_; }
  /// The name of the last record that was looked at.
  [[nodiscard]] const std::string& last() const { return last_; }

  /// Returns the items of the next page, perhaps none. Errors: of Drive::walk; the next call then
  /// reads the same page.
  Task<Result<std::vector<Item>>> next() {
    std::vector<Item> items;
    std::string last = last_;
    std::size_t seen = 0;
    bool more = false;
    const auto visit = [&](std::string_view name, io::ObjectRecord record) -> Index::Step {
      last = name;
      take_(name, std::move(record), items);
      more = ++seen == size_.records || items.size() >= size_.items;
      return {.stop = more, .skip_to = {}};
    };
    CO_TRY_OK(co_await drive_.walk(bucket_, "", last_, visit));
    last_ = std::move(last);
    more_ = more;
    co_return items;
  }

 private:
  Drive& drive_;
  const BucketId bucket_;
  const Take take_;
  const PageSize size_;
  std::string last_;
  bool more_ = true;
};

}  // namespace tarn::target
