#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "target/drive/drive.h"

namespace tarn::target {

/// A page of IndexPages ends after so many records, or after the one with which it has so many
/// items.
struct PageSize {
  std::size_t records = 50'000;
  std::size_t items = 1'000;
};

/// Item of pages whose records are only looked at.
struct NoItem {};

/// Records of a bucket in the index of a drive, in the order of their keys, a page at a time: other
/// work has its turns at the drive between pages. `Walk` shows them: RecordPages and SlicePages are
/// for use. Not thread-safe. The drive must outlive it.
template <class Walk, class Item>
class IndexPages {
 public:
  using Key = typename Walk::Key;
  using Record = typename Walk::Record;
  using Last = typename Walk::Last;
  /// Adds to the items of a page what is wanted of a record: nothing, one item or several. Called
  /// on one of the drive's threads.
  using Take = std::function<void(Key key, Record record, std::vector<Item>& items)>;

  /// `after`: the first record is the first one after this key. `walk`: which records are shown.
  IndexPages(Drive& drive, BucketId bucket, Take take, PageSize size = {}, Last after = {},
             Walk walk = {})
      : drive_(drive),
        bucket_(bucket),
        take_(std::move(take)),
        size_(size),
        walk_(std::move(walk)),
        last_(std::move(after)) {}

  /// True until next() has returned the last page.
  [[nodiscard]] bool more() const { return more_; }
  /// The key of the last record that was looked at.
  [[nodiscard]] const Last& last() const { return last_; }

  /// Returns the items of the next page, perhaps none. Errors: of the walk; the next call then
  /// reads the same page.
  Task<Result<std::vector<Item>>> next() {
    std::vector<Item> items;
    Last last = last_;
    std::size_t seen = 0;
    bool more = false;
    const auto look = [&](Key key, Record record) {
      last = key;
      take_(key, std::forward<Record>(record), items);
      more = ++seen == size_.records || items.size() >= size_.items;
      return !more;
    };
    CO_TRY_OK(co_await walk_.run(drive_, bucket_, last_, look));
    last_ = std::move(last);
    more_ = more;
    co_return items;
  }

 private:
  Drive& drive_;
  const BucketId bucket_;
  const Take take_;
  const PageSize size_;
  const Walk walk_;
  Last last_;
  bool more_ = true;
};

}  // namespace tarn::target
