// When objects were read last, as eviction asks for it.

#include "target/drive/access_times.h"

#include <algorithm>
#include <random>

#include "seed.h"
#include <catch2/catch.hpp>

namespace access_times_test {

using namespace tarn;
using namespace tarn::target;

constexpr BucketId kOne{1};
constexpr BucketId kTwo{2};

constexpr WallTime at(std::int64_t seconds) { return std::chrono::seconds(seconds); }

TEST_CASE("access times: an object was read when that was noted last", "[access_times]") {
  AccessTimes times(at(1000));
  CHECK(times.last(kOne, "a") == 1000);
  times.note(kOne, "a", at(2000));
  times.note(kOne, "b", at(1500));
  CHECK(times.last(kOne, "a") == 2000);
  CHECK(times.last(kOne, "b") == 1500);
  CHECK(times.last(kTwo, "a") == 1000);
  times.note(kOne, "a", at(1900));  // a clock that went back
  CHECK(times.last(kOne, "a") == 2000);
}

TEST_CASE("access times: a table that was saved is taken over whatever its size",
          "[access_times]") {
  const auto seed = test_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (const std::uint64_t before_gib : {1U, 1024U, 100'000U})
    for (const std::uint64_t after_gib : {1U, 1024U, 100'000U}) {
      INFO(before_gib << " GiB, then " << after_gib);
      AccessTimes before(at(500));
      before.set_drive_bytes(before_gib << 30U);
      for (int i = 0; i < 1000; ++i)
        before.note(kOne, std::to_string(i), at(1000 + static_cast<int>(random() % 1000)));
      REQUIRE(before.has_changed());
      const std::string saved = before.encode();
      CHECK_FALSE(before.has_changed());
      AccessTimes after(at(9000));
      after.set_drive_bytes(after_gib << 30U);
      REQUIRE(after.load(saved).has_value());
      CHECK_FALSE(after.has_changed());
      // Names that share a slot share the newest access: never an older one.
      int later = 0;
      for (int i = 0; i < 1000; ++i) {
        const std::string name = std::to_string(i);
        REQUIRE(after.last(kOne, name) >= before.last(kOne, name));
        later += after.last(kOne, name) > before.last(kOne, name) ? 1 : 0;
      }
      CHECK(later < 40);  // a thousand names in 65,536 slots at least
      CHECK(after.last(kTwo, "never seen") == 500);
    }
}

TEST_CASE("access times: what is torn or of another kind is refused and changes nothing",
          "[access_times]") {
  AccessTimes before(at(500));
  before.note(kOne, "a", at(1000));
  const std::string saved = before.encode();
  AccessTimes times(at(7));
  for (const std::size_t cut : {std::size_t{0}, std::size_t{7}, std::size_t{20}, saved.size() - 1})
    CHECK(times.load(saved.substr(0, cut)).error().code == Errc::corrupt);
  for (const std::size_t place :
       {std::size_t{0}, std::size_t{9}, std::size_t{13}, saved.size() / 2, saved.size() - 1}) {
    std::string bad = saved;
    bad[place] = static_cast<char>(bad[place] ^ 0x40);
    CHECK(times.load(bad).error().code == Errc::corrupt);
  }
  CHECK(times.last(kOne, "a") == 7);
  REQUIRE(times.load(saved).has_value());
  CHECK(times.last(kOne, "a") == 1000);
}

TEST_CASE("access times: a drive of whatever size costs 16 MiB at most", "[access_times]") {
  AccessTimes times(at(0));
  times.set_drive_bytes(1ULL << 50U);
  CHECK(times.encode().size() < 100);  // nothing noted, nothing kept
  times.note(kOne, "a", at(1));
  CHECK(times.encode().size() < (16U << 20U) + 100);
}

}  // namespace access_times_test
