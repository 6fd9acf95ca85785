#include "common/api/list_merge.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tarn::api {
namespace {

/// HRW spreads names evenly: a source's share of a page and a quarter more is nearly always enough.
/// Asking each for a whole page would throw most of it away.
std::size_t batch_for(std::size_t sources, std::size_t limit) {
  const std::size_t share = limit / std::max<std::size_t>(sources, 1);
  return std::min(limit, share + share / 4 + 32);
}

}  // namespace

ListMerge::ListMerge(std::size_t sources, std::size_t limit, const std::string& after)
    : limit_(limit), batch_(batch_for(sources, limit)) {
  TARN_CHECK(limit > 0);
  sources_.resize(sources);
  for (Source& source : sources_) source.after = after;
  merged_.reserve(limit);
}

std::vector<std::size_t> ListMerge::wanting() const {
  std::vector<std::size_t> out;
  if (is_full()) return out;
  for (std::size_t i = 0; i < sources_.size(); ++i)
    if (sources_[i].is_empty() && sources_[i].more) out.push_back(i);
  return out;
}

Status ListMerge::feed(std::size_t index, PackedPage page) {
  Source& source = sources_[index];
  TARN_CHECK(source.is_empty() && source.more);
  if (page.entries.empty() && page.more)
    return fail(Errc::corrupt, "no entries after '{}', yet more of them", source.after);
  std::string_view last = source.after;
  for (const PackedEntry& entry : page.entries) {
    if (entry.name <= last)
      return fail(Errc::corrupt, "'{}' does not come after '{}'", entry.name, last);
    last = entry.name;
  }
  source.after = std::string(last);
  source.entries = std::move(page.entries);
  source.next = 0;
  source.more = page.more;
  kept_.push_back(std::move(page.bytes));
  if (wanting().empty()) merge();
  return {};
}

/// Takes the smallest name as long as every source that has names left shows its next one.
void ListMerge::merge() {
  const auto later = [this](std::size_t a, std::size_t b) {
    const int order = sources_[a].front().name.compare(sources_[b].front().name);
    return order > 0 || (order == 0 && a > b);
  };
  std::vector<std::size_t> heap;
  for (std::size_t i = 0; i < sources_.size(); ++i)
    if (!sources_[i].is_empty()) heap.push_back(i);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty() && !is_full()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Source& source = sources_[heap.back()];
    const PackedEntry& entry = source.entries[source.next++];
    if (merged_.empty() || merged_.back().name != entry.name) merged_.push_back(entry);
    if (!source.is_empty()) {
      std::push_heap(heap.begin(), heap.end(), later);
    } else {
      if (source.more) return;  // its next name may be the smallest: ask first
      heap.pop_back();
    }
  }
}

bool ListMerge::more() const {
  return std::any_of(sources_.begin(), sources_.end(), [this](const Source& source) {
    if (source.more) return true;
    // Entries left may be the page's last name once more: a directory that several targets have.
    return std::any_of(
        source.entries.begin() + static_cast<std::ptrdiff_t>(source.next), source.entries.end(),
        [this](const PackedEntry& entry) { return entry.name != merged_.back().name; });
  });
}

MergedPage ListMerge::take() {
  const bool has_more = more();
  return {std::move(merged_), has_more, std::move(kept_)};
}

}  // namespace tarn::api
