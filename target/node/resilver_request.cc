#include "target/node/resilver_request.h"

#include <algorithm>

#include "common/base/random.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kIdLength = 10;  // as of all jobs
constexpr std::chrono::seconds kDelayLeast = 5s;
constexpr std::chrono::seconds kDelayMost = 1h;

}  // namespace

void ResilverRequest::ask(By by) {
  const MutexLock lock(mutex_);
  ++asked_;
  by_operator_ = by_operator_ || by == By::order;
  job_ = random_id(kIdLength);
  not_before_ = BootTime{0};
  delay_ = 0s;
}

std::string ResilverRequest::job(BootTime now) const {
  const MutexLock lock(mutex_);
  return now >= not_before_ && (enabled || by_operator_) ? job_ : std::string();
}

std::uint64_t ResilverRequest::begin() const {
  const MutexLock lock(mutex_);
  return asked_;
}

void ResilverRequest::end(std::uint64_t begun, End how, BootTime now) {
  const MutexLock lock(mutex_);
  ++ended_;
  if (begun != asked_ || job_.empty()) return;  // ask() came meanwhile: at once
  if (how == End::clean || (how == End::stopped && !by_operator_)) {
    job_.clear();
    by_operator_ = false;
    return;
  }
  job_ = random_id(kIdLength);
  delay_ = std::clamp(2 * delay_, kDelayLeast, kDelayMost);
  not_before_ = now + delay_;
}

std::uint64_t ResilverRequest::ended() const {
  const MutexLock lock(mutex_);
  return ended_;
}

}  // namespace tarn::target
