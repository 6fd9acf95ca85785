#include "target/node/rebuild_watch.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/check.h"

namespace tarn::target {
namespace {

/// A wait for a limit, or for clients, is shown for so long: blocks come apart.
constexpr std::chrono::seconds kHeldLately{5};

std::uint64_t sum_of(const RebuildWatch::Todo& todo) {
  std::uint64_t sum = 0;
  for (const auto& [missing, objects] : todo.objects) sum += objects;
  return sum;
}

}  // namespace

void RebuildWatch::look_begins(std::uint64_t map_version) {
  const MutexLock lock(mutex_);
  ++begun_;
  map_version_ = map_version;
  if (state_ == State::unknown || state_ == State::whole) state_ = State::looking;
}

void RebuildWatch::found(Todo todo, const Clock& clock) {
  const MutexLock lock(mutex_);
  todo_ = std::move(todo);
  missing_ = std::any_of(todo_.objects.begin(), todo_.objects.end(),
                         [](const auto& each) { return each.first > 0; });
  if (todo_.objects.empty()) return;
  if (started_ns_ == 0 || ended_ns_ != 0) {
    started_ns_ = clock.wall_time().count();
    ended_ns_ = 0;
    objects_ = bytes_ = 0;
  }
  state_ = State::working;
  rate_ = RecentRate(clock.boot_time());
}

void RebuildWatch::Making::pass(std::uint64_t bytes) {
  TARN_CHECK(passed_ <= bytes_);
  // An object that has changed since the look may have more.
  const std::uint64_t counted = std::min(bytes, bytes_ - passed_);
  passed_ += counted;
  watch_.pass(counted, clock_.boot_time());
}

void RebuildWatch::Making::end(bool made) {
  if (ended_) return;
  ended_ = true;
  watch_.leave(passed_);
  if (made)
    watch_.count_made(bucket_, missing_, bytes_);
  else if (!reasons_.empty())
    watch_.not_made(bucket_, reasons_);
}

void RebuildWatch::Making::note(const WaitReason& reason) { reasons_.add(reason); }

void RebuildWatch::Making::note(const WaitReasons& reasons) { reasons_.add(reasons); }

void RebuildWatch::Making::note_failed(const std::string& error, const std::string& where) {
  reasons_.add_failed(where, error);
}

void RebuildWatch::Making::note_failed_unless_known(const std::string& error) {
  if (reasons_.empty()) note_failed(error);
}

/// Counts one of several slices of one object that have the same reason.
void RebuildWatch::not_made(BucketId bucket, const WaitReasons& reasons) {
  const MutexLock lock(mutex_);
  WaitReasons& its = todo_.waits[bucket];
  for (const auto& [reason, slices] : reasons.objects()) {
    if (reason.why == WaitReason::Why::failed)
      its.add_failed(reason.where, reasons.error());
    else
      its.add(reason);
  }
}

void RebuildWatch::held(HeldBy by, const Clock& clock) {
  const MutexLock lock(mutex_);
  held_[by] = clock.boot_time();
}

void RebuildWatch::pass(std::uint64_t bytes, BootTime now) {
  const MutexLock lock(mutex_);
  under_way_ += bytes;
  rate_.add(bytes, now);
}

void RebuildWatch::leave(std::uint64_t passed) {
  const MutexLock lock(mutex_);
  under_way_ -= std::min(under_way_, passed);
}

void RebuildWatch::count_made(BucketId bucket, std::size_t missing, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (const auto its = todo_.buckets.find(bucket); its != todo_.buckets.end())
    if (--its->second == 0) todo_.buckets.erase(its);
  if (const auto its = todo_.objects.find(missing); its != todo_.objects.end())
    if (--its->second == 0) todo_.objects.erase(its);
  todo_.bytes -= std::min(todo_.bytes, bytes);
  ++objects_;
  bytes_ += bytes;
  ++made_.objects;
  made_.bytes += bytes;
}

void RebuildWatch::look_ends(bool all, const std::string& error, const Clock& clock) {
  const MutexLock lock(mutex_);
  ended_ = begun_;
  error_ = all ? "" : error;
  missing_ = false;
  state_ = stopped_by_ ? State::stopped : all ? State::whole : State::waiting;
  if (all) {
    todo_.objects.clear();
    todo_.bytes = 0;
    todo_.buckets.clear();
  }
  if (state_ != State::waiting && started_ns_ != 0 && ended_ns_ == 0)
    ended_ns_ = clock.wall_time().count();
}

std::uint64_t RebuildWatch::ask_unless_stopped() {
  const MutexLock lock(mutex_);
  if (stopped_by_) return ended_;
  asked_ = begun_ + 1;
  return asked_;
}

std::uint64_t RebuildWatch::ask() {
  const MutexLock lock(mutex_);
  stopped_by_.reset();
  asked_ = begun_ + 1;
  return asked_;
}

bool RebuildWatch::is_asked() const {
  const MutexLock lock(mutex_);
  return asked_ > begun_;
}

void RebuildWatch::stop(KnownLosses now) {
  const MutexLock lock(mutex_);
  stopped_by_ = std::move(now);
  asked_ = begun_;
  if (state_ == State::waiting || state_ == State::unknown) state_ = State::stopped;
}

bool RebuildWatch::heed(KnownLosses now) {
  const MutexLock lock(mutex_);
  if (!stopped_by_) return false;
  if (now.more_than(*stopped_by_)) {
    stopped_by_.reset();
    asked_ = begun_ + 1;
    return true;
  }
  now.keep_words_of(*stopped_by_);
  stopped_by_ = std::move(now);
  return false;
}

bool RebuildWatch::is_stopped() const {
  const MutexLock lock(mutex_);
  return stopped_by_.has_value();
}

bool RebuildWatch::wants_job() const {
  const MutexLock lock(mutex_);
  return state_ == State::working && missing_ && !stopped_by_;
}

RebuildWatch::State RebuildWatch::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

RebuildWatch::Made RebuildWatch::made() const {
  const MutexLock lock(mutex_);
  return made_;
}

/// Objects that could not be made stay to be done.
std::optional<double> RebuildWatch::seconds_left(BootTime now) const {
  if (state_ == State::whole && todo_.incomplete == 0) return 0;
  if (state_ != State::working || stopped_by_) return std::nullopt;
  if (todo_.objects.empty()) return 0;
  const double rate = rate_.at(now);
  if (rate <= 0) return std::nullopt;
  return static_cast<double>(todo_.bytes - std::min(todo_.bytes, under_way_)) / rate;
}

/// Reasons of `left` objects, and those that were `found`.
WaitReasons RebuildWatch::waits(std::uint64_t left, const WaitReasons& found, BootTime now) const {
  WaitReasons out = found;
  if (stopped_by_) out.add({WaitReason::Why::stopped, ""}, left);
  for (const auto& [by, at] : held_)
    if (now - at < kHeldLately && !stopped_by_) out.add(reason_of(by), left);
  return out;
}

nlohmann::json RebuildWatch::buckets(BootTime now) const {
  nlohmann::json out = nlohmann::json::object();
  const auto put = [&](BucketId bucket, std::uint64_t left,
                       const WaitReasons& found) TARN_REQUIRES(mutex_) {
    const WaitReasons general = left == 0 ? found : waits(left, found, now);
    if (general.empty() && left == 0) return;
    out[std::to_string(raw(bucket))] = {{"left_objects", left}, {"waits", general}};
  };
  for (const auto& [bucket, found] : todo_.waits)
    if (!todo_.buckets.contains(bucket)) put(bucket, 0, found);
  for (const auto& [bucket, left] : todo_.buckets) {
    const auto found = todo_.waits.find(bucket);
    put(bucket, left, found == todo_.waits.end() ? WaitReasons() : found->second);
  }
  return out;
}

nlohmann::json RebuildWatch::report(const Clock& clock) const {
  const MutexLock lock(mutex_);
  const BootTime now = clock.boot_time();
  WaitReasons found;
  for (const auto& [bucket, its] : todo_.waits) found.add(its);
  nlohmann::json by_missing = nlohmann::json::object();
  for (const auto& [missing, objects] : todo_.objects)
    by_missing[std::to_string(missing)] = objects;
  const auto seconds = seconds_left(now);
  const double rate = state_ == State::working ? rate_.at(now) : 0;
  return {{"state", to_string(state_)},
          {"stopped", stopped_by_.has_value()},
          {"map", map_version_},
          {"looks", ended_},
          {"started_ns", started_ns_},
          {"ended_ns", ended_ns_},
          {"objects", objects_},
          {"bytes", bytes_},
          {"left_objects", sum_of(todo_)},
          {"left_bytes", todo_.bytes},
          {"by_missing", std::move(by_missing)},
          {"incomplete", todo_.incomplete},
          {"rate", static_cast<std::uint64_t>(rate)},
          {"seconds_left", seconds ? nlohmann::json(*seconds) : nlohmann::json()},
          {"waits", waits(sum_of(todo_), found, now)},
          {"buckets", buckets(now)},
          {"error", error_}};
}

const char* to_string(RebuildWatch::State state) {
  switch (state) {
    case RebuildWatch::State::unknown: return "unknown";
    case RebuildWatch::State::looking: return "looking";
    case RebuildWatch::State::working: return "working";
    case RebuildWatch::State::waiting: return "waiting";
    case RebuildWatch::State::whole: return "whole";
    case RebuildWatch::State::stopped: return "stopped";
  }
  return "?";
}

}  // namespace tarn::target
