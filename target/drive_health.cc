// When a drive is in, suspect, or out: what its errors mean.

#include "common/base/clock.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive.h"

namespace tarn::target {
namespace {

constexpr auto kSuspectFor = std::chrono::minutes(1);
constexpr std::size_t kWriteErrorsMax = 3;
constexpr double kPatienceSeconds = 2;

spdlog::logger& drive_log() { return obs::log("drive"); }

}  // namespace

Status Drive::usable() const {
  const std::lock_guard lock(mutex_);
  if (out_.empty()) return {};
  return fail(Errc::unavailable, "drive {} is out: {}", options_.path, out_);
}

Status Drive::not_overloaded() const {
  if (!SAFETY("safety.overload") || threads_->longest_wait() <= kPatienceSeconds) return {};
  return fail(Errc::unavailable, "drive {} has more to do than it can; try again", options_.path);
}

void Drive::take_out(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!out_.empty()) return;
  out_ = why;
  drive_log().error("drive taken out drive={} why={}", options_.path, why);
}

void Drive::note_index_error(const Error& error) {
  if (error.code != Errc::no_space) take_out(error.message);
}

/// Only what the drive did wrong: it may be full, and the process may be short of descriptors.
void Drive::note_write_error(const Error& error) {
  if (error.code != Errc::io) return;
  ++counters_.write_errors;
  std::size_t recent = 0;
  {
    const std::lock_guard lock(mutex_);
    const BootTime now = system_clock().boot_time();
    while (!write_errors_.empty() && now - write_errors_.front() > kSuspectFor)
      write_errors_.pop_front();
    write_errors_.push_back(now);
    recent = write_errors_.size();
  }
  drive_log().error("write failed drive={} recent={} err={}", options_.path, recent, error.message);
  if (recent >= kWriteErrorsMax)
    take_out(fmt::format("{} writes failed within a minute: {}", recent, error.message));
}

bool Drive::suspect() const {
  const std::lock_guard lock(mutex_);
  return !write_errors_.empty() && system_clock().boot_time() - write_errors_.back() <= kSuspectFor;
}

Status Drive::sync_or_take_out(int fd) {
  if (const Status synced = files_->sync(fd); !synced) {
    // A second fsync may say yes to bytes that are gone: never asked again.
    ++counters_.sync_errors;
    take_out(synced.error().message);
    return fail(Errc::unavailable, "{}", synced.error().message);
  }
  return {};
}

/// As for files: what a directory says after a failed sync is worth nothing.
Status Drive::sync_directory(const std::string& path) {
  const Status synced = files_->sync_directory(path);
  if (!synced && synced.error().code != Errc::unavailable) {
    ++counters_.sync_errors;
    take_out(synced.error().message);
  }
  return synced;
}

}  // namespace tarn::target
