#include "target/rebuild_watch.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace tarn::target {
namespace {

/// The rate is a mean in which what is this old counts a third of what is new.
constexpr double kRebuildWatchMeanSeconds = 3;
/// Objects come one by one: shorter times say nothing.
constexpr double kLeastSeconds = 0.25;

std::uint64_t sum_of(const RebuildWatch::Todo& todo) {
  std::uint64_t sum = 0;
  for (const auto& [missing, objects] : todo.objects) sum += objects;
  return sum;
}

}  // namespace

void RebuildWatch::look_begins(std::uint64_t map_version) {
  const std::lock_guard lock(mutex_);
  ++begun_;
  map_version_ = map_version;
  if (state_ == State::unknown || state_ == State::whole) state_ = State::looking;
}

void RebuildWatch::found(Todo todo, const Clock& clock) {
  const std::lock_guard lock(mutex_);
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
  last_ = clock.boot_time();
  last_bytes_ = bytes_;
  rate_ = 0;
}

void RebuildWatch::passed(std::size_t missing, std::uint64_t bytes, bool made, const Clock& clock) {
  const std::lock_guard lock(mutex_);
  if (!made) return;
  if (const auto its = todo_.objects.find(missing); its != todo_.objects.end())
    if (--its->second == 0) todo_.objects.erase(its);
  todo_.bytes -= std::min(todo_.bytes, bytes);
  ++objects_;
  bytes_ += bytes;
  count_rate(clock.boot_time());
}

void RebuildWatch::count_rate(BootTime now) {
  const double seconds = std::chrono::duration<double>(now - last_).count();
  if (seconds < kLeastSeconds) return;
  const double since = static_cast<double>(bytes_ - last_bytes_) / seconds;
  rate_ =
      rate_ == 0 ? since : since + (rate_ - since) * std::exp(-seconds / kRebuildWatchMeanSeconds);
  last_ = now;
  last_bytes_ = bytes_;
}

void RebuildWatch::look_ends(bool all, const std::string& error, const Clock& clock) {
  const std::lock_guard lock(mutex_);
  ended_ = begun_;
  rate_ = 0;
  error_ = all ? "" : error;
  missing_ = false;
  state_ = stopped_by_ ? State::stopped : all ? State::whole : State::waiting;
  if (all) todo_ = {.objects = {}, .bytes = 0, .incomplete = todo_.incomplete};
  if (state_ != State::waiting && started_ns_ != 0 && ended_ns_ == 0)
    ended_ns_ = clock.wall_time().count();
}

std::uint64_t RebuildWatch::ask_unless_stopped() {
  const std::lock_guard lock(mutex_);
  if (stopped_by_) return ended_;
  asked_ = begun_ + 1;
  return asked_;
}

std::uint64_t RebuildWatch::ask() {
  const std::lock_guard lock(mutex_);
  stopped_by_.reset();
  asked_ = begun_ + 1;
  return asked_;
}

bool RebuildWatch::is_asked() const {
  const std::lock_guard lock(mutex_);
  return asked_ > begun_;
}

void RebuildWatch::stop(KnownLosses now) {
  const std::lock_guard lock(mutex_);
  stopped_by_ = std::move(now);
  asked_ = begun_;
  if (state_ == State::waiting) state_ = State::stopped;
}

bool RebuildWatch::heed(KnownLosses now) {
  const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  return stopped_by_.has_value();
}

bool RebuildWatch::wants_job() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::working && missing_ && !stopped_by_;
}

RebuildWatch::State RebuildWatch::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

nlohmann::json RebuildWatch::report() const {
  const std::lock_guard lock(mutex_);
  nlohmann::json by_missing = nlohmann::json::object();
  for (const auto& [missing, objects] : todo_.objects)
    by_missing[std::to_string(missing)] = objects;
  nlohmann::json seconds;
  if (todo_.bytes == 0)
    seconds = 0;
  else if (rate_ > 0)
    seconds = static_cast<double>(todo_.bytes) / rate_;
  return {{"state", to_string(state_)},
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
          {"rate", static_cast<std::uint64_t>(rate_)},
          {"seconds_left", std::move(seconds)},
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
