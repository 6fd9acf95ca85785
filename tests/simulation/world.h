#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/simulation/random.h"

namespace tarn::simulation {

/// Microseconds of simulated time.
using Time = std::int64_t;
inline constexpr Time kMillisecond = 1000;
inline constexpr Time kSecond = 1000 * kMillisecond;

/// A recipient of messages: the meta store is 0, then targets, then proxies.
using Place = std::size_t;

/// Clock, network and processes of one schedule. All that happens is an event in one queue, ordered
/// by time, so a seed always runs the same.
class World {
 public:
  using Run = std::function<void()>;
  World(std::uint64_t seed, std::size_t places, bool trace);

  Random random;
  [[nodiscard]] Time now() const { return now_; }
  /// The clock of a place: it drifts, may jump forward, and never goes back (CLOCK_BOOTTIME).
  [[nodiscard]] Time local(Place place) const;
  void jump(Place place, Time forward) { processes_[place].offset += forward; }
  void drift(Place place, double rate) { processes_[place].rate = rate; }

  /// Runs `run` at the world's time `at`, whatever the state of any process.
  void at(Time at, Run run);
  /// Runs `run` in this process after `delay` of its own clock: not when it dies before, later when
  /// it is paused.
  void after(Place place, Time delay, Run run);
  /// Carries a message: `run` happens at `to` after a delay, or never. An answer is for one life of
  /// its receiver only, `epoch`; 0: for whatever life it finds.
  void send(Place from, Place to, Run run, std::uint64_t epoch = 0);

  void start(Place place);
  void kill(Place place);
  void pause(Place place);
  void go_on(Place place);
  [[nodiscard]] bool up(Place place) const { return processes_[place].up; }
  [[nodiscard]] bool paused(Place place) const { return processes_[place].paused; }
  /// Counts the starts of a process: what an older one has sent for is not for the newer one.
  [[nodiscard]] std::uint64_t epoch(Place place) const { return processes_[place].epoch; }

  void cut(Place from, Place to, bool is_cut) { cut_[from * processes_.size() + to] = is_cut; }
  /// All messages on this way are late by `delay`; 0: no longer.
  void slow(Place from, Place to, Time delay) { slow_[from * processes_.size() + to] = delay; }
  void heal();
  /// One message in `one_in` is lost, one in `one_in` is late by up to `late`; 0: none.
  void disturb(std::int64_t one_in, Time late) {
    lost_one_in_ = one_in;
    late_ = late;
  }

  /// Runs events until none is left or the time has come. The number of events run.
  std::uint64_t run_until(Time until);

  template <class... Args>
  void trace(fmt::format_string<Args...> text, Args&&... args) {
    if (trace_)
      fmt::print("{:10.3f}  {}\n", static_cast<double>(now_) / kSecond,
                 fmt::format(text, std::forward<Args>(args)...));
  }
  [[nodiscard]] bool tracing() const { return trace_; }

 private:
  struct Event {
    Time at;
    std::uint64_t order;
    Run run;
  };
  struct Process {
    bool up = false;
    bool paused = false;
    std::uint64_t epoch = 0;
    double rate = 1.0;
    Time offset = 0;
    std::vector<Run> held;
  };
  void enter(Place place, std::uint64_t epoch, Run run);

  bool trace_;
  Time now_ = 0;
  std::uint64_t order_ = 0;
  std::vector<Event> events_;  // a heap
  std::vector<Process> processes_;
  std::vector<bool> cut_;
  std::vector<Time> slow_;
  std::int64_t lost_one_in_ = 0;
  Time late_ = 0;
};

}  // namespace tarn::simulation
