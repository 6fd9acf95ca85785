#include "target/node/recent_rate.h"

namespace tarn::target {
namespace {

constexpr std::chrono::seconds kMarkEvery{1};

double per_second(std::uint64_t bytes, std::chrono::nanoseconds time) {
  return static_cast<double>(bytes) / std::chrono::duration<double>(time).count();
}

}  // namespace

void RecentRate::add(std::uint64_t bytes, BootTime now) {
  if (marks_.empty() || now - marks_.back().at >= kMarkEvery) marks_.push_back({now, bytes_});
  bytes_ += bytes;
  while (marks_.size() > 1 && marks_[1].at + kRecent <= now) marks_.pop_front();
}

double RecentRate::at(BootTime now) const {
  const auto time = now - began_;
  if (time < kLeast) return 0;
  const double all = per_second(bytes_, time);
  if (time < kRecent) return all;
  Mark since = marks_.front();
  for (const Mark& mark : marks_)
    if (mark.at + kRecent <= now) since = mark;
  return (all + 2 * per_second(bytes_ - since.before, now - since.at)) / 3;
}

}  // namespace tarn::target
