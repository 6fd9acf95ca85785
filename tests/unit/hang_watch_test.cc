#include "target/drive/hang_watch.h"

#include <functional>

#include <catch2/catch.hpp>

namespace hang_watch_test {

using tarn::target::HangWatch;

/// How many of `looks`, a second apart, it takes to call the drive hung; 0: it never is.
int looks_until_hung(int looks, const std::function<HangWatch::Progress(int second)>& seen) {
  HangWatch watch;
  for (int second = 1; second <= looks; ++second)
    if (watch.look(seen(second))) return second;
  return 0;
}

TEST_CASE("hang watch: a drive hangs when nothing ends for ten seconds", "[target][health]") {
  // The first look finds what was done before.
  CHECK(looks_until_hung(60, [](int second) { return HangWatch::Progress{1.0 * second, 5, {}}; }) ==
        11);
  // Slow: one call has been running all the time, others end.
  CHECK(looks_until_hung(60, [](int second) {
          return HangWatch::Progress{1.0 * second, static_cast<std::uint64_t>(second / 9), {}};
        }) == 0);
  // Idle.
  CHECK(looks_until_hung(60, [](int) { return HangWatch::Progress{0, 5, {}}; }) == 0);
}

TEST_CASE("hang watch: the disk's own counters decide where there are some", "[target][health]") {
  using Disk = HangWatch::Progress::Disk;
  // Every thread is in a long sync, and the disk writes.
  CHECK(looks_until_hung(60, [](int second) {
          return HangWatch::Progress{1.0 * second, 5, Disk{static_cast<std::uint64_t>(second), 9}};
        }) == 0);
  // Objects in memory are served, the disk does nothing that it was asked for.
  const auto served = [](int second) {
    return HangWatch::Progress{1.0 * second, static_cast<std::uint64_t>(second), Disk{7, 9}};
  };
  CHECK(looks_until_hung(60, served) == 11);
  // Work that takes long without the disk.
  CHECK(looks_until_hung(
            60, [](int second) { return HangWatch::Progress{1.0 * second, 5, Disk{7, 0}}; }) == 0);
}

TEST_CASE("hang watch: a process that was stopped finds no drive guilty", "[target][health]") {
  // The clock jumps by a minute between two looks.
  CHECK(looks_until_hung(9, [](int second) {
          return HangWatch::Progress{second < 5 ? 0.1 : 60.0 + second, 5, {}};
        }) == 0);
}

}  // namespace hang_watch_test
