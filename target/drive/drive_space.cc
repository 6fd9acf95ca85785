// Space of a drive: how full it is, and what is kept for the moment when it is full.

#include <vector>

#include "common/obs/log.h"
#include "target/drive/drive.h"
#include "target/drive/space_rules.h"

namespace tarn::target {
namespace {

constexpr const char* kBallastFile = ".tarn/ballast";
constexpr std::uint64_t kBallastBytes = 1U << 20U;

}  // namespace

double reserve_of(const io::Space& now, const SpaceLimits& limits) {
  if (limits.reserve_bytes != 0) return static_cast<double>(limits.reserve_bytes);
  return static_cast<double>(now.total) * limits.reserve_percent / 100;
}

bool has_room(const io::Space& now, const SpaceLimits& limits, std::uint64_t length,
              double used_percent) {
  const double left = static_cast<double>(now.free) - static_cast<double>(length);
  return left >= reserve_of(now, limits) &&
         left >= static_cast<double>(now.total) * (100 - used_percent) / 100;
}

io::Space Drive::space() const {
  const MutexLock lock(mutex_);
  return space_;
}

double Drive::used_percent() const {
  const io::Space now = space();
  if (now.total == 0) return 100;
  return 100.0 * static_cast<double>(now.total - now.free) / static_cast<double>(now.total);
}

void Drive::set_space_limits(const SpaceLimits& limits) {
  const MutexLock lock(mutex_);
  space_limits_ = limits;
}

Status Drive::refresh_space() {
  TRY(const io::Space now, files_->space());
  const MutexLock lock(mutex_);
  space_ = now;
  return {};
}

Task<Result<io::Space>> Drive::measure_space() {
  auto work = [this]() -> Result<io::Space> {
    TRY_OK(usable());
    TRY_OK(refresh_space());
    return space();
  };
  co_return co_await threads_->run(work);
}

Status Drive::check_space(std::uint64_t length, bool above_watermark) {
  TRY_OK(refresh_space());
  io::Space now;
  SpaceLimits limits;
  {
    const MutexLock lock(mutex_);
    now = space_;
    limits = space_limits_;
  }
  const double limit = above_watermark ? limits.out_of_space : limits.high_watermark;
  if (has_room(now, limits, length, limit)) return {};
  return fail(Errc::no_space,
              "drive {} has {} of {} bytes free, which leaves no room for {} more (limit {} %, "
              "reserve {:.0f} bytes). Delete objects or add drives",
              options_.path, now.free, now.total, length, limit, reserve_of(now, limits));
}

/// A file that is given up when the drive is so full that not even a delete can be noted.
void Drive::keep_ballast() {
  if (const auto there = files_->open_for_read(kBallastFile)) return;
  if (!check_space(32 * kBallastBytes, false)) return;
  auto fd = files_->create(kBallastFile);
  if (!fd) return;
  // Really allocated, or it would be no weight.
  const std::vector<std::byte> zeros(kBallastBytes);
  if (!files_->write(fd->get(), zeros, 0)) static_cast<void>(files_->remove(kBallastFile));
}

Status Drive::commit_with_room(const std::function<IndexBatch()>& batch) {
  Status done = index_->commit(batch());
  if (done || done.error().code != Errc::no_space) return done;
  obs::log("drive").warn("drive full, ballast dropped drive={}", options_.path);
  TRY_OK(files_->remove(kBallastFile));
  TRY_OK(index_->resume());
  return index_->commit(batch());
}

}  // namespace tarn::target
