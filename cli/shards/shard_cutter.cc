#include "cli/shards/shard_cutter.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"

namespace tarn::cli {
namespace {

constexpr std::size_t kRememberedMax = 1'000'000;

void append(std::vector<SpooledRange>& ranges, SpooledRange range) {
  if (!ranges.empty() && ranges.back().offset + ranges.back().bytes == range.offset)
    ranges.back().bytes += range.bytes;
  else
    ranges.push_back(range);
}

}  // namespace

Status ShardCutter::add(const TarMember& member, SpooledRange where, const std::string& globals) {
  // Names of directories end in '/': no file has their key, so each stands alone and keeps its
  // place.
  std::string key(member.is_directory() ? std::string_view(member.name) : sample_key(member.name));
  if (member.is_directory() && !key.ends_with('/')) key += '/';
  if (member.is_hard_link() && sample_key(member.link) != key)
    return fail(Errc::unsupported,
                "'{}' is a hard link to '{}', which may lie in another shard: let tar write its "
                "content, with tar --hard-dereference -cf - ...",
                member.name, member.link);
  globals_ = globals;
  auto known = index_of_.find(key);
  if (known == index_of_.end()) {
    if (left_.count(xxh64(key)) > 0) {
      if (member.is_directory())
        key += fmt::format("@{}", where.offset);  // seen twice: no harm
      else
        return fail(Errc::conflict,
                    "the sample '{}' goes on with '{}' after its shard was cut, {} bytes of the "
                    "stream later: sort the files, with tar --sort=name -cf - ..., or hold more of "
                    "the stream back (--hold)",
                    key, member.name, limits_.hold_bytes);
    }
    known = index_of_.emplace(key, released_ + held_.size()).first;
    held_.push_back({key, {}, 0, 0, 0, false});
  }
  Sample& sample = held_[known->second - released_];
  append(sample.ranges, where);
  sample.bytes += where.bytes;
  ++sample.members;
  sample.counts |= !member.is_directory();
  sample.globals = globals.size();
  held_bytes_ += where.bytes;
  ++held_members_;
  // The last one may still be growing.
  while (held_.size() > 1 &&
         (held_bytes_ > limits_.hold_bytes || held_members_ > limits_.hold_members))
    release_first();
  return {};
}

void ShardCutter::finish() {
  while (!held_.empty()) release_first();
  if (!open_.ranges.empty()) close_shard();
}

std::optional<ShardPlan> ShardCutter::take() {
  if (closed_.empty()) return std::nullopt;
  ShardPlan out = std::move(closed_.front());
  closed_.pop_front();
  return out;
}

void ShardCutter::release_first() {
  Sample sample = std::move(held_.front());
  held_.pop_front();
  ++released_;
  index_of_.erase(sample.key);
  held_bytes_ -= sample.bytes;
  held_members_ -= sample.members;
  remember(xxh64(sample.key));
  place(sample);
}

void ShardCutter::place(const Sample& sample) {
  const std::uint64_t end = ShardPlan::end_marker().size();
  const bool full =
      open_.bytes + sample.bytes + end > limits_.shard_bytes_max ||
      (limits_.samples_max > 0 && sample.counts && open_.samples >= limits_.samples_max);
  // Other global headers hold for this sample than for those before: each must see its own only.
  const bool other_globals = open_.prologue.size() != sample.globals;
  if ((full || other_globals) && !open_.ranges.empty()) close_shard();
  if (open_.ranges.empty()) {
    open_.prologue = globals_.substr(0, sample.globals);
    open_.bytes = sample.globals;
  }
  for (const SpooledRange& range : sample.ranges) append(open_.ranges, range);
  open_.bytes += sample.bytes;
  if (!sample.counts) return;
  ++open_.samples;
  ++samples_out_;
  largest_sample_ = std::max(largest_sample_, sample.bytes);
}

void ShardCutter::close_shard() {
  open_.bytes += ShardPlan::end_marker().size();
  const std::uint64_t number = open_.number;
  closed_.push_back(std::exchange(open_, ShardPlan()));
  open_.number = number + 1;
}

void ShardCutter::remember(std::uint64_t digest) {
  if (!left_.insert(digest).second) return;
  left_order_.push_back(digest);
  if (left_order_.size() <= kRememberedMax) return;
  left_.erase(left_order_.front());
  left_order_.pop_front();
}

}  // namespace tarn::cli
