#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "proxy/list_entry.h"

namespace tarn::proxy {

/// Makes one page of a bucket's list from the pages of all targets. Pure: it decides what to ask,
/// the caller asks.
///
///   ListMerge merge(targets, limit, after);
///   while (not merge.wanting().empty()) { ask those behind merge.after(i); merge.feed(i, ...); }
///   merge.entries(), merge.more()
///
/// The page holds the `limit` smallest names greater than `after` that any target has, in byte
/// order, each once: a virtual directory that several targets have is one entry, and so is an
/// object that two targets list while it moves.
class ListMerge {
 public:
  ListMerge(std::size_t sources, std::size_t limit, const std::string& after);

  /// The sources that must send more before the page can be completed, empty when it is. At first
  /// all.
  [[nodiscard]] std::vector<std::size_t> wanting() const;
  /// How many entries it makes sense to ask a source for.
  [[nodiscard]] std::size_t batch() const { return batch_; }
  /// Behind which name the next entries of `source` begin.
  [[nodiscard]] const std::string& after(std::size_t source) const {
    return sources_[source].after;
  }
  /// Takes what `source` answered, and whether it has `more` behind. corrupt when its names are not
  /// in order or not behind after(source): the list would have holes. corrupt, too, for no entries
  /// and yet more, which would never end.
  [[nodiscard]] Status feed(std::size_t source, std::vector<ListEntry> entries, bool more);

  /// The page. Complete when wanting() is empty.
  [[nodiscard]] const std::vector<ListEntry>& entries() const { return merged_; }
  /// The page, moved out; the last call.
  [[nodiscard]] std::vector<ListEntry> take() { return std::move(merged_); }
  /// Whether there are names behind the page. Known when wanting() is empty.
  [[nodiscard]] bool more() const;

 private:
  struct Source {
    std::vector<ListEntry> entries;
    std::size_t next = 0;  ///< of entries, not yet merged
    bool more = true;
    std::string after;
    [[nodiscard]] bool is_empty() const { return next == entries.size(); }
    [[nodiscard]] const ListEntry& front() const { return entries[next]; }
  };
  void merge();
  [[nodiscard]] bool is_full() const { return merged_.size() == limit_; }

  std::size_t limit_;
  std::size_t batch_;
  std::vector<Source> sources_;
  std::vector<ListEntry> merged_;
};

}  // namespace tarn::proxy
