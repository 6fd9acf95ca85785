#include "target/drives/slow_watch.h"

#include <functional>
#include <map>
#include <string>

#include <catch2/catch.hpp>

namespace slow_watch_test {

using tarn::io::DriveKind;
using tarn::target::SlowWatch;

/// A disk that needs `ms` for each request and does `requests` a second.
struct Disk {
  SlowWatch::Seen seen;
  void second(std::uint64_t requests, std::uint64_t ms, std::uint64_t bytes = 4096) {
    seen.requests += requests;
    seen.bytes += requests * bytes;
    seen.busy_ms += requests * ms;
  }
};

/// Three siblings, a second of work at a time.
struct Siblings {
  std::map<std::string, Disk> disks{{"a", {}}, {"b", {}}, {"c", {}}};
  SlowWatch watch;
  std::vector<SlowWatch::Change> look() {
    std::map<std::string, SlowWatch::Seen> seen;
    for (const auto& [path, disk] : disks) seen[path] = disk.seen;
    return watch.look(seen);
  }
  /// The second, of `seconds`, in which something changed; 0: none.
  int run(int seconds, const std::function<void(std::map<std::string, Disk>&)>& work) {
    for (int second = 1; second <= seconds; ++second) {
      work(disks);
      if (!look().empty()) return second;
    }
    return 0;
  }
};

void all_well(std::map<std::string, Disk>& disks) {
  for (auto& [path, disk] : disks) disk.second(50, 1);
}

TEST_CASE("slow watch: ten times as long as its siblings is slow, until it is not",
          "[target][health]") {
  Siblings its;
  CHECK(its.run(100, all_well) == 0);
  const int found = its.run(30, [](auto& disks) {
    disks["a"].second(50, 1);
    disks["b"].second(20, 10);
    disks["c"].second(50, 1);
  });
  CHECK(found > 1);
  CHECK(found <= 10);
  CHECK(its.watch.slow() == std::set<std::string>{"b"});
  // Nothing is known of one that is idle: it stays what it was.
  CHECK(its.run(60, [](auto& disks) {
    disks["a"].second(50, 1);
    disks["c"].second(50, 1);
  }) == 0);
  CHECK(its.watch.slow().size() == 1);
  CHECK(its.run(30, all_well) <= 10);
  CHECK(its.watch.slow().empty());
}

TEST_CASE("slow watch: neither idle nor busy drives are slow", "[target][health]") {
  Siblings its;
  // One has a hundred times the work of another, and much larger requests.
  CHECK(its.run(300, [](auto& disks) {
    disks["a"].second(900, 1);
    disks["b"].second(9, 1);
    disks["c"].second(50, 17, 1U << 20U);
  }) == 0);
  // One request now and then takes long.
  int second = 0;
  CHECK(its.run(300, [&](auto& disks) {
    all_well(disks);
    if (++second % 5 == 0) disks["b"].second(1, 5000);
  }) == 0);
}

TEST_CASE("slow watch: faster than the floor is never slow", "[target][health]") {
  Siblings its;
  for (auto& [path, disk] : its.disks) disk.seen.kind = DriveKind::rotational;
  // Seeks beside sequential reads.
  CHECK(its.run(300, [](auto& disks) {
    disks["a"].second(80, 12);
    disks["b"].second(900, 1);
    disks["c"].second(900, 1);
  }) == 0);
}

TEST_CASE("slow watch: a disk that ends a request in seconds is slow", "[target][health]") {
  Siblings its;
  CHECK(its.run(20, all_well) == 0);
  int second = 0;
  const int found = its.run(30, [&](auto& disks) {
    disks["a"].second(50, 1);
    disks["c"].second(50, 1);
    disks["b"].seen.busy_ms += 1000;
    disks["b"].seen.requests += ++second % 2 == 0 ? 4 : 0;
  });
  CHECK(found > 0);
}

TEST_CASE("slow watch: a drive alone is compared with itself", "[target][health]") {
  Siblings its;
  its.disks = {{"a", {}}};
  CHECK(its.run(100, [](auto& disks) { disks["a"].second(50, 1); }) == 0);
  CHECK(its.run(30, [](auto& disks) { disks["a"].second(20, 12); }) > 0);
  // It does not get used to that.
  CHECK(its.run(1000, [](auto& disks) { disks["a"].second(20, 12); }) == 0);
  CHECK(its.watch.slow().size() == 1);
  // Another disk at its place begins anew.
  its.disks["a"] = {};
  CHECK(its.look().empty());
  CHECK(its.watch.slow().empty());
}

}  // namespace slow_watch_test
