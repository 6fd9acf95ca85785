// A library for LD_PRELOAD that makes the clocks of one program wrong, for tests/fault (clocks.py).
//
// TARN_TEST_CLOCK names a file of two little-endian 64-bit numbers. The first is the nanoseconds
// that the wall clock is ahead; it is read at each look, so it can jump. The second says how many
// parts in a million all clocks run too fast (or, negative, too slow); it is read once.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMillion = 1'000'000;

struct Wrong {
  std::atomic<std::int64_t> ahead_ns;
  std::atomic<std::int64_t> too_fast_ppm;
};

template <typename Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

timespec as_timespec(std::int64_t time) {
  std::int64_t seconds = time / kSecond;
  if (time % kSecond < 0) --seconds;
  return {seconds, time - seconds * kSecond};
}

bool is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

bool tells_time(clockid_t clock) {
  return is_wall(clock) || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
         clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

/// Faults of the clocks, and since when; made at the first look at a clock.
class Clocks {
 public:
  Clocks() {
    const char* path = std::getenv("TARN_TEST_CLOCK");
    const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void* place = mmap(nullptr, sizeof(Wrong), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (place == MAP_FAILED) return;
    wrong_ = static_cast<const Wrong*>(place);
    ppm_ = wrong_->too_fast_ppm.load();
    timespec now{};
    true_gettime(CLOCK_BOOTTIME, &now);
    since_ = nanoseconds(now);
  }

  /// How far a clock is ahead now.
  [[nodiscard]] std::int64_t ahead(clockid_t clock) const {
    if (wrong_ == nullptr || !tells_time(clock)) return 0;
    timespec now{};
    true_gettime(CLOCK_BOOTTIME, &now);
    const std::int64_t drift = (nanoseconds(now) - since_) / kMillion * ppm_;
    return drift + (is_wall(clock) ? wrong_->ahead_ns.load() : 0);
  }

  static int true_gettime(clockid_t clock, timespec* out) {
    static const auto next = next_of<int(clockid_t, timespec*)>("clock_gettime");
    return next(clock, out);
  }

 private:
  const Wrong* wrong_ = nullptr;
  std::int64_t ppm_ = 0;
  std::int64_t since_ = 0;
};

const Clocks& clocks() {
  static const Clocks made;
  return made;
}

/// Time for which the kernel has to wait so that a clock of ours shows `wanted`.
timespec true_time(clockid_t clock, const timespec& wanted) {
  return as_timespec(nanoseconds(wanted) - clocks().ahead(clock));
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) {
  const int done = Clocks::true_gettime(clock, out);
  if (done == 0) *out = as_timespec(nanoseconds(*out) + clocks().ahead(clock));
  return done;
}

int gettimeofday(timeval* out, void*) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *out = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* out) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  static const auto next =
      next_of<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  const timespec then = true_time(CLOCK_REALTIME, *until);
  return next(condition, mutex, &then);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static const auto next =
      next_of<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>(
          "pthread_cond_clockwait");
  const timespec then = true_time(clock, *until);
  return next(condition, mutex, clock, &then);
}

}  // extern "C"
