#include "target/repair/repair_queue.h"

#include "common/base/check.h"

namespace tarn::target {

std::size_t danger_of(const Repair& repair) {
  const bool makes = !repair.anew.empty() || !repair.full_copy.empty();
  return makes ? repair.left : RepairQueue::kInNoDanger;
}

void RepairQueue::add(std::size_t danger, Entry entry) {
  ++added_.objects[entry.missing];
  ++added_.buckets[entry.name.bucket];
  added_.bytes += entry.bytes;
  if (size_ >= names_max_) {
    let_some_go_ = true;
    if (size_ == 0 || danger >= entries_.rbegin()->first) return;
    let_last_go();
  }
  entries_[danger].push_back(std::move(entry));
  ++size_;
  TARN_CHECK(size_ <= names_max_);
}

std::optional<RepairQueue::Entry> RepairQueue::next() {
  if (entries_.empty()) return std::nullopt;
  const auto first = entries_.begin();
  TARN_CHECK(size_ > 0 && !first->second.empty());
  Entry out = std::move(first->second.front());
  first->second.pop_front();
  if (first->second.empty()) entries_.erase(first);
  --size_;
  return out;
}

void RepairQueue::let_last_go() {
  const auto last = std::prev(entries_.end());
  TARN_CHECK(size_ > 0 && !last->second.empty());
  last->second.pop_back();
  if (last->second.empty()) entries_.erase(last);
  --size_;
}

}  // namespace tarn::target
