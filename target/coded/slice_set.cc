#include "target/coded/slice_set.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/coded/slice_holder.h"

namespace tarn::target {
namespace {

/// Slices whose holders are this target or have a lease.
ec::SliceNumbers slices_of_the_living(const TargetNode& node, const io::Coding& coding) {
  const auto state = node.view.state();
  ec::SliceNumbers out;
  for (std::size_t i = 0; i < coding.holders.size(); ++i) {
    const std::string& holder = coding.holders[i];
    if (!holder.empty() && (holder == node.id || state->live.contains(holder))) out.insert(i);
  }
  return out;
}

}  // namespace

Task<Status> SliceSet::fill(ec::StripeReader& into) {
  if (!bell_) bell_ = std::make_shared<asio::steady_timer>(co_await asio::this_coro::executor);
  while (true) {
    CO_TRY_OK(choose());
    co_await bring(into.stripe());
    const Status added = add_to(into);
    if (added) co_return Status();
  }
}

Status SliceSet::choose() {
  const std::size_t k = layout_.geometry().k;
  const ec::SliceNumbers alive = slices_of_the_living(node_, coding_) - left_out_;
  auto chosen = ec::slices_to_read(alive - late_, wanted_, k);
  if (!chosen) {
    late_ = {};  // better late than never
    slow_too_ = true;
    chosen = ec::slices_to_read(alive, wanted_, k);
  }
  if (!chosen)
    return fail(Errc::unavailable,
                "{} of the {} slices of {} can be had now, {} are needed; try again", alive.size(),
                layout_.geometry().slices(), name_.object, k);
  chosen_ = *chosen;
  return {};
}

void SliceSet::leave_out(std::size_t slice, const Error& why) {
  TARN_CHECK(slice < coding_.holders.size());
  left_out_.insert(slice);
  fetched_.erase(slice);
  sources_[slice].reset();
  if (why.code == Errc::corrupt) bad_.insert(slice);
  if (why.code == Errc::corrupt || why.code == Errc::object_not_found) gone_.insert(slice);
  if (coding_.holders[slice] == node_.id)
    note_if_bad(node_, {name_.bucket, name_.object, coding_.set, static_cast<std::uint8_t>(slice)},
                why);
  obs::log("target").warn("slice left out by a reader object={} slice={} holder={} err={}",
                          name_.object, slice, coding_.holders[slice], why.message);
}

bool SliceSet::move_to(io::Coding coding) {
  bool any = false;
  for (std::size_t slice = 0; slice < coding.holders.size(); ++slice) {
    const std::string& holder = coding.holders[slice];
    if (holder.empty() || holder == coding_.holders[slice]) continue;
    // One that is open where it was is read on from there.
    left_out_.erase(slice);
    late_.erase(slice);
    gone_.erase(slice);
    any = true;
  }
  coding_ = std::move(coding);
  return any;
}

bool SliceSet::lost() const {
  const auto state = node_.view.state();
  // Slices are made of the full copy again, where that is.
  if (coding_.full_copy != node_.id && state->map.find(coding_.full_copy) != nullptr) return false;
  std::size_t left = 0;
  for (std::size_t slice = 0; slice < coding_.holders.size(); ++slice) {
    const std::string& holder = coding_.holders[slice];
    if (!holder.empty() && !gone_.contains(slice) && state->map.find(holder) != nullptr) ++left;
  }
  return left < layout_.geometry().k;
}

void SliceSet::next_batch(std::uint64_t stripe) {
  TARN_CHECK(stripe < end_);
  if (stripe < batch_.first || stripe - batch_.first >= batch_.count) {
    batch_ = {stripe, std::min(end_ - stripe, SliceSource::blocks_at_once(layout_))};
    fetched_ = {};
    took_.clear();
  }
  for (std::size_t slice = 0; slice < sources_.size(); ++slice) {
    if (chosen_.contains(slice)) continue;
    calls_[slice].reset();
    // A slice that is passed over would return old blocks when it is chosen again.
    if (!fetched_.contains(slice)) sources_[slice].reset();
  }
}

/// Starts calls for the next blocks of all chosen slices that do not have them.
void SliceSet::start_calls(std::uint64_t stripe) {
  const ec::Stripes rest{stripe, end_ - stripe};
  // One that is opened inside of a batch begins there.
  const ec::Stripes missing{stripe, batch_.first + batch_.count - stripe};
  TARN_CHECK(missing.count > 0 && missing.count <= rest.count);
  for (const std::size_t slice : chosen_ - fetched_) {
    if (calls_[slice]) continue;
    SliceKey key{name_.bucket, name_.object, coding_.set, static_cast<std::uint8_t>(slice)};
    calls_[slice] = std::make_shared<SliceCall>(SliceCall{.holder = coding_.holders[slice],
                                                          .key = std::move(key),
                                                          .layout = layout_,
                                                          .rest = rest,
                                                          .missing = missing,
                                                          .purpose = purpose_,
                                                          .unless_slow = !slow_too_,
                                                          .source = std::move(sources_[slice])});
    start(node_, calls_[slice], bell_);
  }
}

/// Takes what has come. False: a slice failed, and was left out, or is on a slow drive.
bool SliceSet::collect() {
  bool good = true;
  for (const std::size_t slice : chosen_ - fetched_) {
    const auto call = calls_[slice];
    if (!call || !call->result) continue;
    calls_[slice].reset();
    if (*call->result) {
      sources_[slice] = std::move(call->source);
      fetched_.insert(slice);
      took_.push_back(call->took);
    } else if (call->unless_slow && call->result->error().code == Errc::timeout) {
      late_.insert(slice);
      good = false;
    } else {
      leave_out(slice, call->result->error());
      good = false;
    }
  }
  return good;
}

/// Returns those of `waiting` that are to be passed over, as long as there are enough without them.
ec::SliceNumbers SliceSet::late(ec::SliceNumbers waiting) {
  const auto after = late_after(took_, chosen_.size());
  const auto now = std::chrono::steady_clock::now();
  ec::SliceNumbers others = slices_of_the_living(node_, coding_) - left_out_ - late_;
  ec::SliceNumbers out;
  if (!SAFETY("safety.pass_over_late")) return out;
  for (const std::size_t slice : waiting) {
    others.erase(slice);
    if (others.size() < layout_.geometry().k) break;
    TARN_CHECK(calls_[slice] != nullptr);
    if (now - calls_[slice]->begun >= after)
      out.insert(slice);
    else
      others.insert(slice);
  }
  return out;
}

/// Brings the next blocks of the chosen slices, until all are there, or one of these is to be
/// replaced.
Task<void> SliceSet::bring(std::uint64_t stripe) {
  constexpr auto kLookEvery = std::chrono::milliseconds(100);
  next_batch(stripe);
  start_calls(stripe);
  while (true) {
    const bool good = collect();
    const ec::SliceNumbers waiting = chosen_ - fetched_;
    if (!good || waiting.empty()) co_return;
    const ec::SliceNumbers passed = late(waiting);
    for (const std::size_t slice : passed) {
      late_.insert(slice);
      obs::log("target").warn("slice is late, a reader takes another object={} slice={} holder={}",
                              name_.object, slice, coding_.holders[slice]);
    }
    if (!passed.empty()) co_return;
    bell_->expires_after(kLookEvery);
    co_await bell_->async_wait(kTuple);
  }
}

/// Not all of them: then one more was left out.
Status SliceSet::add_to(ec::StripeReader& into) {
  for (const std::size_t slice : chosen_ - into.have()) {
    if (!fetched_.contains(slice)) return fail(Errc::corrupt, "slice {} was not read", slice);
    TARN_CHECK(sources_[slice] != nullptr);
    const Status added = into.add(slice, sources_[slice]->block(into.stripe()));
    if (added) continue;
    leave_out(slice, added.error());
    return added;
  }
  return {};
}

}  // namespace tarn::target
