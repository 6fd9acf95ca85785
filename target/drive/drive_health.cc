// States of a drive by its errors: in, suspect, or out.

#include "common/base/clock.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "common/obs/proc_files.h"
#include "target/drive/drive.h"

namespace tarn::target {
namespace {

constexpr auto kSuspectFor = std::chrono::minutes(1);
constexpr std::size_t kWriteErrorsMax = 3;
constexpr double kPatienceSeconds = 2;
constexpr const char* kAliveFile = ".tarn/alive";

spdlog::logger& health_log() { return obs::log("drive"); }

}  // namespace

/// Returns ok if it is in or merely hangs: what is known to be unfinished is finished when it goes
/// on.
Status Drive::not_taken_out() const {
  const MutexLock lock(mutex_);
  if (out_.empty()) return {};
  return fail(Errc::unavailable, "drive {} is out: {}", options_.path, out_);
}

bool Drive::has_failed_lately() const {
  return !write_errors_.empty() && system_clock().boot_time() - write_errors_.back() <= kSuspectFor;
}

DriveState Drive::state_now() const {
  if (!out_.empty()) return vanished_ ? DriveState::missing : DriveState::out;
  if (!hangs_.empty()) return DriveState::hung;
  if (disabled_.load()) return DriveState::disabled;
  if (draining_.load()) return DriveState::draining;
  if (has_failed_lately()) return DriveState::suspect;
  return is_slow() ? DriveState::slow : DriveState::up;
}

DriveState Drive::state() const {
  const MutexLock lock(mutex_);
  return state_now();
}

Status Drive::usable() const {
  const MutexLock lock(mutex_);
  if (rules_of(state_now()).answers) return {};
  return fail(Errc::unavailable, "drive {} is out: {}", options_.path,
              out_.empty() ? hangs_ : out_);
}

bool Drive::hangs() const {
  const MutexLock lock(mutex_);
  return !hangs_.empty();
}

Status Drive::not_overloaded() const {
  if (!SAFETY("safety.overload") || threads_->longest_wait() <= kPatienceSeconds) return {};
  return fail(Errc::unavailable, "drive {} has more to do than it can; try again", options_.path);
}

void Drive::ring_on_health(std::shared_ptr<Event> event) {
  const MutexLock lock(mutex_);
  health_changed_ = std::move(event);
}

bool Drive::vanished() const {
  const MutexLock lock(mutex_);
  return vanished_;
}

void Drive::take_out(const std::string& why, bool vanished) {
  const MutexLock lock(mutex_);
  if (!out_.empty()) return;
  out_ = why;
  vanished_ = vanished;
  if (health_changed_) health_changed_->ring();
  health_log().error("drive taken out drive={} why={}", options_.path, why);
}

/// Progress of the disk below; nothing where it has none, or the kernel does not count what it
/// does.
std::optional<HangWatch::Progress::Disk> Drive::disk_progress() const {
  if (mount_.disk.empty()) return std::nullopt;
  const auto disks = obs::read_disks();
  const auto its = disks.find(mount_.disk);
  if (its == disks.end() || its->second.reads + its->second.writes == 0) return std::nullopt;
  return HangWatch::Progress::Disk{its->second.reads + its->second.writes, its->second.in_flight};
}

void Drive::watch() {
  HangWatch::Progress progress;
  progress.longest_run = threads_->longest_run();
  progress.completed = threads_->completed();
  if (progress.longest_run >= HangWatch::kSlowSeconds) progress.disk = disk_progress();
  const bool is_hanging = hang_watch_.look(progress);
  if (!hangs()) {
    if (is_hanging) hang();
    return;
  }
  // All calls that hung have come back: what runs now began after them.
  if (progress.longest_run < HangWatch::kSlowSeconds && !trying_.exchange(true))
    threads_->post([this] { try_again(); });
}

void Drive::hang() {
  Error why{Errc::unavailable, fmt::format("drive {} does not answer", options_.path)};
  {
    const MutexLock lock(mutex_);
    hangs_ = fmt::format("it has done nothing for {} s", hang_watch_.hang_after().count());
    if (health_changed_) health_changed_->ring();
  }
  ++counters_.hangs;
  health_log().error("drive hangs, out until it answers drive={} running={}", options_.path,
                     threads_->queued());
  // Turns first: work that is refused a thread returns its turn. The turn would go to the next
  // waiter, which would be refused within that call, and so on.
  turns_->refuse(why);
  threads_->refuse(why);
}

/// On the drive's threads, after all that hung. Work that was begun has ended as if the drive had
/// been slow. It was committed whole or not at all, under its name's lock, and no other drive could
/// take over its name meanwhile.
void Drive::try_again() {
  const auto answers = [this]() -> Status {
    TRY_OK(files_->check_mounted());
    TRY_OK(files_->write_file(kAliveFile, ""));
    return files_->remove(kAliveFile);
  };
  const Status answered = answers();
  trying_ = false;
  if (!answered && answered.error().code != Errc::no_space) {
    take_out(answered.error().message);
    return;
  }
  {
    const MutexLock lock(mutex_);
    hangs_.clear();
    if (health_changed_) health_changed_->ring();
  }
  turns_->accept();
  threads_->accept();
  health_log().info("drive answers again drive={}", options_.path);
}

void Drive::note_index_error(const Error& error) {
  if (error.code != Errc::no_space) take_out(error.message);
}

void Drive::take_errors(const Counters& before) {
  for (const auto counter : {&Counters::hangs, &Counters::read_errors, &Counters::write_errors,
                             &Counters::sync_errors, &Counters::corrupt_blocks})
    counters_.*counter += (before.*counter).load();
}

/// Only what the drive did wrong: it may be full, and the process may be short of descriptors.
void Drive::note_write_error(const Error& error) {
  if (error.code != Errc::io) return;
  ++counters_.write_errors;
  std::size_t recent = 0;
  {
    const MutexLock lock(mutex_);
    const BootTime now = system_clock().boot_time();
    while (!write_errors_.empty() && now - write_errors_.front() > kSuspectFor)
      write_errors_.pop_front();
    write_errors_.push_back(now);
    recent = write_errors_.size();
  }
  health_log().error("write failed drive={} recent={} err={}", options_.path, recent,
                     error.message);
  if (recent >= kWriteErrorsMax)
    take_out(fmt::format("{} writes failed within a minute: {}", recent, error.message));
}

bool Drive::suspect() const {
  const MutexLock lock(mutex_);
  return has_failed_lately();
}

Status Drive::sync_or_take_out(int fd) {
  if (const Status synced = files_->sync(fd); !synced) {
    // A second fsync may succeed for bytes that are gone: never asked again.
    ++counters_.sync_errors;
    take_out(synced.error().message);
    return fail(Errc::unavailable, "{}", synced.error().message);
  }
  return {};
}

/// As for files: what a directory reports after a failed sync is worth nothing.
Status Drive::sync_directory(const std::string& path) {
  const Status synced = files_->sync_directory(path);
  if (!synced && synced.error().code != Errc::unavailable) {
    ++counters_.sync_errors;
    take_out(synced.error().message);
  }
  return synced;
}

}  // namespace tarn::target
