#include "common/base/clock.h"

#include <ctime>

namespace tarn {
namespace {

std::chrono::nanoseconds read_clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

BootTime SystemClock::boot_time() const { return read_clock(CLOCK_BOOTTIME); }
WallTime SystemClock::wall_time() const { return read_clock(CLOCK_REALTIME); }

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

}  // namespace tarn
