// Which replica of a name with copies on nodes a proxy sends a reader to.

#include "proxy/watch/least_busy.h"

#include <array>
#include <random>

#include <catch2/catch.hpp>

#include "common/cluster/place/hrw.h"

namespace least_busy_test {

using namespace tarn;
using namespace tarn::proxy;

using Load = LoadReport::Load;

/// Of 10,000 readers, how many go to each of two replicas.
std::array<int, 2> shared_out(const Load& owner, const Load& other) {
  std::mt19937_64 draws(7);  // NOLINT: the same each time
  const std::array<Load, 2> replicas{owner, other};
  std::array<int, 2> out{};
  for (int i = 0; i < 10'000; ++i) ++out[least_busy(replicas, draws())];
  return out;
}

TEST_CASE("a heartbeat line says ready or not, or is none", "[proxy]") {
  const auto said = parse_heartbeat(
      R"({"ready":true,"map":12,"drives":[[7,3,1.5],[18446744073709551615,null]]})");
  REQUIRE(said);
  CHECK(said->ready);
  REQUIRE(said->drives.size() == 2);
  CHECK(said->drives[0].digest == 7);
  CHECK(said->drives[0].work == 3U);
  CHECK(said->drives[0].weight == 1.5);
  CHECK(said->drives[1].digest == UINT64_MAX);
  CHECK_FALSE(said->drives[1].work);
  CHECK_FALSE(parse_heartbeat(R"({"ready":false})")->ready);
  for (const char* bad : {"", "{}", "[true]", "true", R"({"ready":1})", R"({"ready":tru)"})
    CHECK_FALSE(parse_heartbeat(bad).has_value());
}

TEST_CASE("a report knows the drive of a name", "[proxy]") {
  const std::array<LoadReport::OfDrive, 3> drives{{{cluster::placement_digest("/a"), 1, 1},
                                                   {cluster::placement_digest("/b"), 2, 1},
                                                   {cluster::placement_digest("/c"), {}, 1}}};
  const LoadReport report(drives);
  std::array<int, 3> seen{};
  for (int i = 0; i < 300; ++i) {
    const auto name = cluster::placement_digest("ais/@#/data/" + std::to_string(i));
    const Load load = report.of(name);
    ++seen[load.serves ? load.work - 1 : 2];
    report.note_sent(name);
    CHECK(report.of(name).sent == load.sent + 1);
  }
  for (const int count : seen) CHECK(count > 50);
  CHECK(LoadReport().of(1).serves);
}

TEST_CASE("the owner serves as long as it has little to do", "[proxy]") {
  CHECK(shared_out({}, {}) == std::array{10'000, 0});
  CHECK(shared_out({.work = 3}, {}) == std::array{10'000, 0});
  CHECK(shared_out({.serves = false}, {.work = 100}) == std::array{0, 10'000});
  CHECK(shared_out({.work = 100}, {.serves = false}) == std::array{10'000, 0});
  CHECK(shared_out({.serves = false}, {.serves = false}) == std::array{10'000, 0});
}

TEST_CASE("replicas with as much to do get as many readers", "[proxy]") {
  for (const std::uint32_t work : {4U, 50U, 5'000U}) {
    const auto got = shared_out({.work = work}, {.work = work});
    CHECK(got[0] > 4'700);
    CHECK(got[0] < 5'300);
  }
  // None was said to be busy, and many were sent since.
  CHECK(shared_out({.sent = 100}, {})[1] > 4'700);
}

TEST_CASE("the owner of a whole has its readers unless others have much less to do", "[proxy]") {
  const auto share_of_others = [](std::uint32_t owner, std::uint32_t other) {
    std::mt19937_64 draws(7);  // NOLINT: the same each time
    const std::array<Load, 2> replicas{Load{.work = owner}, Load{.work = other}};
    int out = 0;
    for (int i = 0; i < 1000; ++i) out += least_busy(replicas, draws(), true) == 1 ? 1 : 0;
    return out;
  };
  CHECK(share_of_others(50, 50) == 0);
  CHECK(share_of_others(50, 20) == 0);
  CHECK(share_of_others(50, 2) > 850);
  CHECK(share_of_others(4, 0) > 700);
  const std::array<Load, 2> gone{Load{.serves = false}, Load{.work = 100}};
  CHECK(least_busy(gone, 1, true) == 1);
}

TEST_CASE("most readers go to the replica that has less to do", "[proxy]") {
  CHECK(shared_out({.work = 30}, {.work = 2})[1] > 8'500);
  CHECK(shared_out({.work = 10, .sent = 1'000}, {.work = 0})[1] > 8'500);
  CHECK(shared_out({.work = 1'000'000'000}, {.work = 1'000'000'000})[0] > 4'700);
}

TEST_CASE("readers do not run to and fro between replicas on stale figures", "[proxy]") {
  // 100 readers a second, each of whom takes three; proxies hear once a second. One replica is
  // twice as fast.
  std::mt19937_64 draws(11);  // NOLINT: the same each time
  std::array<double, 2> reading{150, 0};
  const std::array<double, 2> seconds{3, 1.5};
  for (int second = 0; second < 60; ++second) {
    const std::array<Load, 2> said{{{.work = static_cast<std::uint32_t>(reading[0])},
                                    {.work = static_cast<std::uint32_t>(reading[1])}}};
    for (int i = 0; i < 100; ++i) reading[least_busy(said, draws())] += 1;
    for (std::size_t replica : {0U, 1U}) reading[replica] *= 1 - 1 / (1 + seconds[replica]);
    if (second < 30) continue;
    CHECK(reading[0] > 60);  // about 122 and 87
    CHECK(reading[0] < 190);
    CHECK(reading[1] > 40);
    CHECK(reading[1] < 140);
  }
}

}  // namespace least_busy_test
