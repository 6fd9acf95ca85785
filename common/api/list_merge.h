#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/api/list_page.h"
#include "common/base/error.h"

namespace tarn::api {

/// Result of ListMerge: entries and the bytes that they point into.
struct MergedPage {
  std::vector<PackedEntry> entries;
  bool more = false;
  std::vector<std::unique_ptr<std::string>> kept;
};

/// Makes one page of a bucket's list from the pages of all sources: a target's drives, or a
/// cluster's targets. Pure: it decides on the questions, the caller asks.
///
///   ListMerge merge(sources, limit, after);
///   while (not merge.wanting().empty()) { ask those after merge.after(i); merge.feed(i, ...); }
///   merge.take()
///
/// The page holds the `limit` smallest names greater than `after` that any source has, in byte
/// order. Each is there once, as the first source that has it shows it: a virtual directory that
/// several have is one entry, and so is an object that two targets list while it moves.
class ListMerge {
 public:
  ListMerge(std::size_t sources, std::size_t limit, const std::string& after);

  /// The sources that must send more before the page can be completed, empty when it is. At first
  /// all.
  [[nodiscard]] std::vector<std::size_t> wanting() const;
  /// Number of entries for which it makes sense to ask a source.
  [[nodiscard]] std::size_t batch() const { return batch_; }
  /// Name after which the next entries of `source` begin.
  [[nodiscard]] const std::string& after(std::size_t source) const {
    return sources_[source].after;
  }
  /// Takes a page of `source`. corrupt when its names are not in order or not greater than
  /// after(source): the list would have holes. corrupt, too, for no entries and yet more, which
  /// would never end.
  [[nodiscard]] Status feed(std::size_t source, PackedPage page);

  /// The page. Complete when wanting() is empty.
  [[nodiscard]] const std::vector<PackedEntry>& entries() const { return merged_; }
  /// True if names follow after the page. Known when wanting() is empty.
  [[nodiscard]] bool more() const;
  /// The page, moved out with the bytes it points into; the last call.
  [[nodiscard]] MergedPage take();

 private:
  struct Source {
    std::vector<PackedEntry> entries;
    std::size_t next = 0;  ///< of entries, not yet merged
    bool more = true;
    std::string after;
    [[nodiscard]] bool is_empty() const { return next == entries.size(); }
    [[nodiscard]] const PackedEntry& front() const { return entries[next]; }
  };
  void merge();
  [[nodiscard]] bool is_full() const { return merged_.size() == limit_; }

  std::size_t limit_;
  std::size_t batch_;
  std::vector<Source> sources_;
  std::vector<PackedEntry> merged_;
  std::vector<std::unique_ptr<std::string>> kept_;  // the bytes that all entries point into
};

}  // namespace tarn::api
