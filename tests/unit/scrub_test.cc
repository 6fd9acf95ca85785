#include <fstream>

#include <catch2/catch.hpp>

#include "target/node/scrub_state.h"
#include "tests/unit/drive_fixture.h"

using namespace std::chrono_literals;

namespace tarn::target {
namespace scrub_test {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStart = 1'700'000'000 * kSecond;

ScrubFinding finding(std::uint64_t file, std::string name = "a") {
  ScrubFinding out;
  out.key = {BucketId{3}, std::move(name), 77, 2};
  out.slice = true;
  out.file = {1, file};
  out.found_ns = kStart;
  out.error = "other bytes";
  return out;
}

TEST_CASE("scrub: what a drive keeps comes back as it was, names of any bytes too") {
  ScrubState state;
  state.begin("job", 1000, kStart);
  state.passed({.bucket = 3, .slices = true, .name = "\xff\x01 name", .set = ~0ULL, .index = 255},
               500);
  state.add(finding(9, "\xfe"));
  const std::string text = encode(state);
  const auto back = scrub_state_from(text);
  REQUIRE(back);
  CHECK(*back == state);
  CHECK(scrub_state_from(encode(ScrubState{})).value() == ScrubState{});
  for (std::size_t cut = 0; cut < text.size(); ++cut)
    CHECK_FALSE(scrub_state_from(std::string_view(text).substr(0, cut)));
}

TEST_CASE("scrub: a pass that has ended verifies what was there when it began") {
  ScrubState state;
  state.begin("", 5000, kStart);
  CHECK(state.runs());
  CHECK(state.verified_ns == 0);
  state.passed({.bucket = 1, .slices = false, .name = "a", .set = 0, .index = 0}, 700);
  CHECK(state.cost == 700 + ScrubState::kFileCost);
  state.add(finding(4));
  state.end(kStart + 100 * kSecond);
  CHECK_FALSE(state.runs());
  CHECK(state.verified_ns == kStart);
  CHECK(state.ended_ns == kStart + 100 * kSecond);
  CHECK(state.at == ScrubMark{});
  state.begin("x", 1, kStart + 200 * kSecond);
  CHECK(state.verified_ns == kStart);  // until that has ended
  CHECK(state.first_ns == kStart);
  CHECK(state.bad == 0);
  CHECK(state.bad_ever == 1);
  CHECK(state.found.size() == 1);
}

TEST_CASE("scrub: findings are kept up to a number, one for each file") {
  ScrubState state;
  for (std::uint64_t i = 0; i < ScrubState::kFindingsMax + 5; ++i) state.add(finding(i));
  CHECK(state.found.size() == ScrubState::kFindingsMax);
  // The first stands for those that went.
  CHECK(state.found.front().key.name.empty());
  CHECK(state.found.front().outcome == ScrubFinding::Outcome::open);
  CHECK(state.found[1].file.id == 6);
  CHECK(scrub_state_from(encode(state)).value() == state);
  state.add(finding(7));
  CHECK(state.found.size() == ScrubState::kFindingsMax);
  CHECK(state.found.back().file.id == 7);
  CHECK(state.bad_ever == ScrubState::kFindingsMax + 6);
}

TEST_CASE("scrub: findings that have ended go first") {
  ScrubState state;
  for (std::uint64_t i = 1; i <= ScrubState::kFindingsMax; ++i) state.add(finding(i));
  state.found[5].outcome = ScrubFinding::Outcome::repaired;
  state.add(finding(1000));
  CHECK(state.found.size() == ScrubState::kFindingsMax);
  CHECK(state.found.front().file.id == 1);
  CHECK(state.found[5].file.id == 7);
  CHECK(state.found.back().file.id == 1000);
}

TEST_CASE("scrub: that more are bad than are noted holds until a pass has found them anew") {
  ScrubState state;
  for (std::uint64_t i = 1; i < ScrubState::kFindingsMax + 5; ++i) state.add(finding(i));
  const auto has_more = [&] {
    return state.found.front().key.name.empty() &&
           state.found.front().outcome == ScrubFinding::Outcome::open;
  };
  CHECK(has_more());
  state.begin("", 1, kStart + kSecond);
  CHECK(has_more());
  ScrubFinding late = finding(2000);
  late.found_ns = kStart + 2 * kSecond;
  state.add(late);  // one more goes in this pass
  state.end(kStart + 3 * kSecond);
  CHECK(has_more());
  state.begin("", 1, kStart + 4 * kSecond);
  state.end(kStart + 5 * kSecond);
  CHECK_FALSE(has_more());
  CHECK(state.found.front().outcome == ScrubFinding::Outcome::gone);
}

TEST_CASE("scrub: each byte is read within the period") {
  const auto period = 1000s;
  ScrubState state;
  CHECK(next_scrub_ns(state, period) == 0);  // never: at once
  const std::uint64_t whole = 8000ULL << 20U;
  state.begin("", whole, kStart);
  // 8000 MiB in 800 of 1000 seconds.
  CHECK(scrub_rate_needed(state, period, kStart) == 10U << 20U);
  // Half of it in a quarter of the time: slower from then on, but never below the least.
  state.cost = whole / 2;
  CHECK(scrub_rate_needed(state, period, kStart + 200 * kSecond) ==
        static_cast<std::uint64_t>(4000.0 * (1 << 20) / 600));
  state.cost = whole - 1;
  CHECK(scrub_rate_needed(state, period, kStart) == 1U << 20U);
  // Late: all of it in a quarter of the period, and no faster.
  state.cost = 0;
  CHECK(scrub_rate_needed(state, period, kStart + 800 * kSecond) == 32U << 20U);
  CHECK(scrub_rate_needed(state, period, kStart + 799 * kSecond) == 32U << 20U);
  state.end(kStart + 850 * kSecond);
  CHECK(next_scrub_ns(state, period) == kStart + 900 * kSecond);
}

TEST_CASE("scrub: a small drive is not read more often than its period wants") {
  const std::chrono::seconds period = 1000s;
  ScrubState state;
  state.begin("", 50ULL << 20U, kStart);  // 50 s at the least rate
  state.end(kStart + 50 * kSecond);
  CHECK(next_scrub_ns(state, period) == kStart + 900 * kSecond);
}

TEST_CASE("scrub: no byte waits for longer than the period, however fast a pass was") {
  const std::chrono::seconds period = 1000s;
  constexpr std::uint64_t kWhole = 8000ULL << 20U;
  constexpr int kParts = 100;
  std::vector<std::int64_t> read(kParts, kStart);  // when each part was read last
  ScrubState state;
  std::int64_t now = kStart;
  for (int pass = 0; pass < 12; ++pass) {
    now = std::max(now, next_scrub_ns(state, period));
    state.begin("", kWhole, now);
    for (int part = 0; part < kParts; ++part) {
      const auto needed = static_cast<double>(scrub_rate_needed(state, period, now));
      // Every third is a job: at the speed of the drive.
      const double rate = pass % 3 == 0 ? 2000.0 * (1U << 20U) : needed;
      now += static_cast<std::int64_t>(static_cast<double>(kWhole) / kParts / rate * 1e9);
      state.cost += kWhole / kParts;
      if (pass > 0) CHECK(now - read[static_cast<std::size_t>(part)] <= 1000 * kSecond);
      read[static_cast<std::size_t>(part)] = now;
    }
    CHECK(now <= scrub_deadline_ns(state, period));
    state.end(now);
  }
}

TEST_CASE("scrub: a file is read anew though its bytes were compared before", "[drive]") {
  testing::Fixture f;
  const std::string content(5 * kBlockBytes + 100, 'y');
  REQUIRE(f.put("a", content));
  bool adopted = false;
  SECTION("with block checksums") {}
  SECTION("adopted, so without block checksums") { adopted = true; }
  if (adopted) {
    f.lose_index();
    f.open();
  }
  const auto object = testing::wait_for(f.drive->open_object(BucketId(1), "a"));
  REQUIRE(object);
  REQUIRE(*object);
  CHECK(testing::wait_for((*object)->read_anew(0, 4)));
  CHECK(testing::wait_for((*object)->read_anew(4, 2)));
  CHECK(f.drive->counters().bytes_verified >= content.size());
  {
    std::fstream bytes(f.data_files().front(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(4 * kBlockBytes + 50);
    bytes.put('z');
  }
  CHECK(testing::wait_for((*object)->read_anew(0, 4)));
  const Status bad = testing::wait_for((*object)->read_anew(4, 2));
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == Errc::corrupt);
  CHECK(f.drive->counters().corrupt_blocks == 1);
}

TEST_CASE("scrub: what a drive is told to keep is there after a start, and gone with its index",
          "[drive]") {
  testing::Fixture f;
  CHECK(testing::wait_for(f.drive->note("scrub")).value().empty());
  ScrubState state;
  state.begin("job", 1000, kStart);
  REQUIRE(testing::wait_for(f.drive->keep_note("scrub", encode(state))));
  f.open();
  CHECK(scrub_state_from(testing::wait_for(f.drive->note("scrub")).value()).value() == state);
  f.lose_index();
  f.open();
  CHECK(testing::wait_for(f.drive->note("scrub")).value().empty());
}

}  // namespace scrub_test
}  // namespace tarn::target
