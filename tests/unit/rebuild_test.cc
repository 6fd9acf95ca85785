// How far a rebuild is, what it may take, and what a loss would cost.

#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/rebuild_plan.h"
#include "proxy/jobs/rebuild_sum.h"
#include "proxy/jobs/rebuild_waits.h"
#include "target/node/move_pace.h"
#include "target/node/rebuild_watch.h"

using namespace std::chrono_literals;

namespace tarn::target {
namespace rebuild_test {

TEST_CASE("rebuild: a look shows what is left, by how much is missing, and when all is whole") {
  ManualClock clock;
  RebuildWatch watch;
  CHECK(watch.report(clock)["state"] == "unknown");
  watch.look_begins(7);
  CHECK(watch.report(clock)["state"] == "looking");
  CHECK_FALSE(watch.wants_job());
  watch.found({.objects = {{1, 2}, {2, 1}}, .bytes = 600, .incomplete = 4}, clock);
  CHECK(watch.wants_job());
  clock.advance(1s);
  RebuildWatch::Making(watch, clock, BucketId{7}, 2, 200).end(true);
  auto report = watch.report(clock);
  CHECK(report["state"] == "working");
  CHECK(report["map"] == 7);
  CHECK(report["objects"] == 1);
  CHECK(report["bytes"] == 200);
  CHECK(report["left_objects"] == 2);
  CHECK(report["left_bytes"] == 400);
  CHECK(report["by_missing"] == nlohmann::json{{"1", 2}});
  CHECK(report["incomplete"] == 4);
  CHECK(report["rate"] == 0);  // nothing had to be written
  CHECK(report["seconds_left"].is_null());
  {
    const RebuildWatch::Making failed(watch, clock, BucketId{7}, 1, 200);
  }
  CHECK(watch.report(clock)["left_objects"] == 2);
  watch.look_ends(false, "a replica is full", clock);
  report = watch.report(clock);
  CHECK(report["state"] == "waiting");
  CHECK(report["error"] == "a replica is full");
  CHECK(report["ended_ns"] == 0);
  CHECK(report["looks"] == 1);
  CHECK_FALSE(watch.wants_job());

  watch.look_begins(7);
  watch.found({.objects = {{1, 2}}, .bytes = 400, .incomplete = 4}, clock);
  for (int i = 0; i < 2; ++i) RebuildWatch::Making(watch, clock, BucketId{7}, 1, 200).end(true);
  watch.look_ends(true, "", clock);
  report = watch.report(clock);
  CHECK(report["state"] == "whole");
  CHECK(report["objects"] == 3);  // of both looks
  CHECK(watch.made().objects == 3);
  CHECK(watch.made().bytes == 600);
  CHECK(report["left_objects"] == 0);
  CHECK(report["incomplete"] == 4);
  CHECK(report["ended_ns"] != 0);

  watch.look_begins(8);
  watch.found({}, clock);
  watch.look_ends(true, "", clock);
  CHECK(watch.report(clock)["objects"] == 3);  // nothing new
  watch.look_begins(8);
  watch.found({.objects = {{0, 1}}, .bytes = 10, .incomplete = 0}, clock);
  CHECK(watch.report(clock)["objects"] == 0);  // something new
  CHECK(watch.made().objects == 3);            // also of what was before
  CHECK_FALSE(watch.wants_job());  // nothing is missing: it is merely at the wrong target
}

TEST_CASE("rebuild: what may be written counts at once, and what then fails is taken back") {
  ManualClock clock;
  RebuildWatch watch;
  CHECK(watch.report(clock)["seconds_left"].is_null());
  watch.look_begins(1);
  CHECK(watch.report(clock)["seconds_left"].is_null());  // the amount that is missing is unknown
  watch.found({.objects = {{1, 2}}, .bytes = 2000, .incomplete = 0}, clock);
  const auto seconds = [&] { return watch.report(clock)["seconds_left"]; };
  CHECK(seconds().is_null());
  {
    RebuildWatch::Making making(watch, clock, BucketId{7}, 1, 1000);
    clock.advance(2s);
    making.pass(200);
    CHECK(seconds().get<double>() == Approx(18));
    clock.advance(1s);
    making.pass(100);
    CHECK(seconds().get<double>() == Approx(17));
    clock.advance(1s);  // without a byte: it takes longer by that
    CHECK(seconds().get<double>() == Approx(1700 / 75.0));
    making.pass(5000);  // the object has grown since
    CHECK(seconds().get<double>() == Approx(1000 / 250.0));
    CHECK(watch.report(clock)["left_bytes"] == 2000);
  }
  CHECK(seconds().get<double>() == Approx(2000 / 250.0));
  RebuildWatch::Making again(watch, clock, BucketId{7}, 1, 1000);
  again.pass(1000);
  again.end(true);
  again.end(false);  // it has ended
  CHECK(watch.report(clock)["left_bytes"] == 1000);
  watch.look_ends(false, "one failed", clock);
  CHECK(seconds().is_null());
  watch.look_begins(1);
  watch.found({.objects = {}, .bytes = 0, .incomplete = 3}, clock);
  watch.look_ends(true, "", clock);
  CHECK(seconds().is_null());  // three wait for what may never be back
  watch.look_begins(1);
  watch.found({}, clock);
  watch.look_ends(true, "", clock);
  CHECK(seconds() == 0);
}

/// Objects of 64 KiB to 256 MiB, as many of each size, made four at a time by a fixed rate, in
/// blocks. The greatest error of the time left that was said, from a tenth of the work on.
double greatest_error(std::uint64_t seed) {
  constexpr double kRate = 200e6;
  constexpr std::uint64_t kBlock = 256U << 10U;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(16, 28);
  std::deque<std::uint64_t> objects;
  std::uint64_t all = 0;
  for (int i = 0; i < 400; ++i) {
    objects.push_back(static_cast<std::uint64_t>(std::exp2(exponent(random))));
    all += objects.back();
  }
  ManualClock clock;
  RebuildWatch watch;
  watch.look_begins(1);
  watch.found({.objects = {{1, objects.size()}}, .bytes = all, .incomplete = 0}, clock);
  struct Worker {
    std::unique_ptr<RebuildWatch::Making> making;
    std::uint64_t left = 0;
  };
  std::array<Worker, 4> workers;
  std::vector<std::pair<BootTime, double>> said;
  std::uint64_t done = 0;
  std::uint64_t looked = all / 10;
  while (done < all) {
    for (Worker& worker : workers) {
      if (worker.left == 0 && objects.empty()) continue;
      if (worker.left == 0) {
        worker.left = objects.front();
        worker.making =
            std::make_unique<RebuildWatch::Making>(watch, clock, BucketId{7}, 1, worker.left);
        objects.pop_front();
      }
      const std::uint64_t bytes = std::min(worker.left, kBlock);
      clock.advance(std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(static_cast<double>(bytes) / kRate)));
      worker.making->pass(bytes);
      worker.left -= bytes;
      done += bytes;
      if (worker.left == 0) worker.making->end(true);
    }
    if (done < looked) continue;
    looked += all / 100;
    const auto seconds = watch.report(clock)["seconds_left"];
    REQUIRE(seconds.is_number());
    said.emplace_back(clock.boot_time(), seconds.get<double>());
  }
  double out = 0;
  for (const auto& [at, seconds] : said) {
    const double real = std::chrono::duration<double>(clock.boot_time() - at).count();
    if (real > 0) out = std::max(out, std::abs(seconds - real) / real);
  }
  CHECK(said.size() > 80);
  return out;
}

TEST_CASE("rebuild: the time left is right to a fifth from a tenth of the work on") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    CHECK(greatest_error(seed) < 0.2);
  }
}

TEST_CASE("rebuild: of the rate the last half minute counts for two thirds") {
  ManualClock clock;
  RecentRate rate(clock.boot_time());
  const auto run = [&](std::uint64_t bytes_a_second, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock.advance(1s);
      rate.add(bytes_a_second, clock.boot_time());
    }
  };
  CHECK(rate.at(clock.boot_time() + 500ms) == 0);
  run(100, 60);
  CHECK(rate.at(clock.boot_time()) == Approx(100).epsilon(0.05));
  run(400, 60);
  CHECK(rate.at(clock.boot_time()) == Approx((250 + 2 * 400) / 3.0).epsilon(0.05));
  clock.advance(60s);  // nothing passes
  CHECK(rate.at(clock.boot_time()) < (250.0 * 2 / 3 + 2 * 20) / 3);
}

TEST_CASE("rebuild: a stop before the first look is told as such") {
  ManualClock clock;
  RebuildWatch watch;
  watch.stop({});
  CHECK(watch.state() == RebuildWatch::State::stopped);
  watch.ask();
  watch.look_begins(1);
  watch.found({}, clock);
  watch.look_ends(true, "", clock);
  CHECK(watch.state() == RebuildWatch::State::whole);
}

TEST_CASE("rebuild: a look that is asked for begins after that, and stop() holds until then") {
  ManualClock clock;
  RebuildWatch watch;
  watch.look_begins(1);
  const auto asked = watch.ask();
  CHECK(asked == 2);
  CHECK(watch.is_asked());
  watch.look_ends(true, "", clock);
  CHECK(watch.report(clock)["looks"] == 1);
  CHECK(watch.is_asked());
  watch.look_begins(1);
  CHECK_FALSE(watch.is_asked());
  watch.found({.objects = {{1, 1}}, .bytes = 10, .incomplete = 0}, clock);
  watch.stop({});
  CHECK(watch.is_stopped());
  CHECK(watch.report(clock)["stopped"] == true);
  CHECK(watch.report(clock)["seconds_left"].is_null());
  CHECK_FALSE(watch.wants_job());
  watch.look_ends(false, "stopped", clock);
  CHECK(watch.report(clock)["state"] == "stopped");
  CHECK(watch.report(clock)["looks"] == asked);
  CHECK(watch.ask_unless_stopped() == asked);
  CHECK(watch.is_stopped());
  CHECK(watch.ask() == 3);
  CHECK(watch.ask_unless_stopped() == 3);
  CHECK_FALSE(watch.is_stopped());
}

TEST_CASE("rebuild: a stop holds whatever the next look would have found of what was lost before") {
  // t2 is out and a drive of t3 is lost; no look has been since then.
  KnownLosses now{.standing = {"t1", "t3", "t4"}, .lost_drives = {{"t1", 0}, {"t3", 7}, {"t4", 0}}};
  RebuildWatch watch;
  CHECK_FALSE(watch.heed(now));  // nothing is stopped
  watch.stop(now);
  CHECK_FALSE(watch.heed(now));
  SECTION("a target joins, is down, or says nothing for a while") {
    now.standing.insert("t5");
    now.lost_drives = {{"t5", 0}};
    CHECK_FALSE(watch.heed(now));
    now.lost_drives = {{"t3", 7}, {"t5", 0}};
    CHECK_FALSE(watch.heed(now));
    now.standing.erase("t5");  // and so it is lost
    CHECK(watch.heed(now));
  }
  SECTION("a target is out") {
    now.standing.erase("t1");
    CHECK(watch.heed(now));
  }
  SECTION("a drive of another one is lost") {
    now.lost_drives["t1"] = 9;
    CHECK(watch.heed(now));
  }
  SECTION("what is back may be lost once more") {
    now.lost_drives["t3"] = 0;
    now.standing.insert("t2");
    CHECK_FALSE(watch.heed(now));
    SECTION("the target") { now.standing.erase("t2"); }
    SECTION("the drive") { now.lost_drives["t3"] = 7; }
    CHECK(watch.heed(now));
  }
  SECTION("another stop holds for what is lost by then") {
    now.standing.erase("t1");
    watch.stop(now);
    CHECK_FALSE(watch.heed(now));
  }
}

TEST_CASE("rebuild: who is out, put aside or leaves is lost, who is down is not") {
  cluster::Ownership map;
  const auto add = [&](std::string id, std::uint64_t flags) {
    cluster::Member member;
    member.id = std::move(id);
    member.flags = flags;
    map.members.push_back(std::move(member));
  };
  add("t1", 0);
  add("t2", cluster::kOut);
  add("t3", cluster::kDown);
  add("t4", cluster::kMaintenance);
  add("t5", cluster::kDecommission);
  cluster::OwnershipState state;
  state.map = std::make_shared<const cluster::Ownership>(map);
  cluster::TargetStatus status;
  status.id = "t1";
  status.lost_drives = 5;
  state.live.push_back(status);
  CHECK(known_losses(state) == KnownLosses{.standing = {"t1", "t3"}, .lost_drives = {{"t1", 5}}});
}

/// How many bytes pass in ten seconds, asked for in parts of 64 KiB.
std::uint64_t in_ten_seconds(MoveLimits& limits, bool foreground) {
  ManualClock clock;
  constexpr std::uint64_t kPart = 64U << 10U;
  std::uint64_t passed = 0;
  for (auto waited = 0ns; waited < 10s;) {
    const auto wait = rebuild_wait(limits, kPart, clock.boot_time(), foreground).time;
    if (wait == 0ns) passed += kPart;
    clock.advance(std::max<std::chrono::nanoseconds>(wait, 10us));
    waited += std::max<std::chrono::nanoseconds>(wait, 10us);
  }
  return passed;
}

TEST_CASE("rebuild: it obeys the ceiling, leaves clients the drives, and never starves") {
  constexpr double kMiB = 1 << 20;
  MoveLimits limits;
  limits.rebuild_min.set(2U << 20U);
  SECTION("the ceiling alone, though the floor is below it") {
    limits.rate.set(10U << 20U);
    CHECK(static_cast<double>(in_ten_seconds(limits, false)) / kMiB == Approx(100).epsilon(0.06));
  }
  SECTION("the floor while clients wait") {
    limits.rate.set(10U << 20U);
    CHECK(static_cast<double>(in_ten_seconds(limits, true)) / kMiB == Approx(20).epsilon(0.06));
  }
  SECTION("the floor without a ceiling") {
    CHECK(static_cast<double>(in_ten_seconds(limits, true)) / kMiB == Approx(20).epsilon(0.06));
  }
  SECTION("the greater of the two, not their sum") {
    limits.rate.set(1U << 20U);
    CHECK(static_cast<double>(in_ten_seconds(limits, false)) / kMiB == Approx(20).epsilon(0.2));
  }
  SECTION("a ceiling of its own, also below the floor and below that of all moves") {
    limits.rate.set(10U << 20U);
    limits.rebuild_max.set(1U << 20U);
    CHECK(static_cast<double>(in_ten_seconds(limits, false)) / kMiB == Approx(10).epsilon(0.06));
    CHECK(static_cast<double>(in_ten_seconds(limits, true)) / kMiB == Approx(10).epsilon(0.06));
  }
  SECTION("no floor: clients first, whatever that means") {
    limits.rebuild_min.set(0);
    CHECK(in_ten_seconds(limits, true) == 0);
  }
}

TEST_CASE("rebuild: the plan goes by what the limits allow together") {
  const auto bounds = [](std::uint64_t all, std::uint64_t least, std::uint64_t most) {
    MoveLimits limits;
    limits.rate.set(all);
    limits.rebuild_min.set(least);
    limits.rebuild_max.set(most);
    const RebuildBounds out = rebuild_bounds(limits);
    return std::pair(out.least, out.most);
  };
  CHECK(bounds(0, 8, 0) == std::pair(8UL, 0UL));
  CHECK(bounds(100, 8, 0) == std::pair(8UL, 100UL));
  CHECK(bounds(4, 8, 0) == std::pair(8UL, 8UL));  // the floor is above what all moves have
  CHECK(bounds(0, 8, 50) == std::pair(8UL, 50UL));
  CHECK(bounds(100, 8, 50) == std::pair(8UL, 50UL));
  CHECK(bounds(20, 8, 50) == std::pair(8UL, 20UL));
  CHECK(bounds(100, 8, 5) == std::pair(5UL, 5UL));
}

TEST_CASE("rebuild: it is known what holds it back") {
  ManualClock clock;
  const auto held_by = [&](std::uint64_t all, std::uint64_t most, bool foreground) {
    MoveLimits limits;
    limits.rate.set(all);
    limits.rebuild_min.set(1U << 20U);
    limits.rebuild_max.set(most);
    for (int i = 0; i < 100; ++i) {
      const auto wait = rebuild_wait(limits, 1U << 20U, clock.boot_time(), foreground);
      if (wait.by != HeldBy::nothing) return wait.by;
    }
    return HeldBy::nothing;
  };
  CHECK(held_by(0, 0, false) == HeldBy::nothing);
  CHECK(held_by(0, 0, true) == HeldBy::clients);
  CHECK(held_by(2U << 20U, 0, false) == HeldBy::all_moves);
  CHECK(held_by(2U << 20U, 1U << 20U, false) == HeldBy::rebuild_max);
  CHECK(held_by(2U << 20U, 1U << 20U, true) == HeldBy::rebuild_max);
}

TEST_CASE("rebuild: why objects are not whole is told, for each bucket") {
  using Why = WaitReason::Why;
  using nlohmann::json;
  ManualClock clock;
  RebuildWatch watch;
  constexpr BucketId kPhotos{7};
  constexpr BucketId kFilms{8};
  RebuildWatch::Todo todo{.objects = {{1, 3}}, .bytes = 300, .incomplete = 2};
  todo.buckets = {{kPhotos, 2}, {kFilms, 1}};
  todo.waits[kPhotos].add({Why::waits_for_node, "t9"}, 2);
  watch.look_begins(1);
  watch.found(todo, clock);
  const json node{{"why", "waits_for_node"}, {"node", "t9"}, {"objects", 2}};
  CHECK(watch.report(clock)["waits"] == json::array({node}));
  watch.held(HeldBy::rebuild_max, clock);
  const auto limit = [](int objects) {
    return json{{"why", "limit"}, {"setting", "rebuild.bandwidth_max"}, {"objects", objects}};
  };
  auto report = watch.report(clock);
  CHECK(report["waits"] == json::array({node, limit(3)}));
  CHECK(report["buckets"]["7"] == json{{"left_objects", 2}, {"waits", {node, limit(2)}}});
  CHECK(report["buckets"]["8"] == json{{"left_objects", 1}, {"waits", json::array({limit(1)})}});
  clock.advance(5s);  // that is over
  CHECK(watch.report(clock)["waits"] == json::array({node}));
  RebuildWatch::Making(watch, clock, kPhotos, 1, 100).end(true);
  {
    RebuildWatch::Making making(watch, clock, kPhotos, 1, 100);
    making.note({Why::no_room, "t3"});
    making.note({Why::no_room, "t3"});  // of another slice
    making.note_failed_unless_known("nothing could be made");
  }
  {
    RebuildWatch::Making making(watch, clock, kFilms, 1, 100);
    making.note_failed_unless_known("the object has changed");
  }
  watch.look_ends(false, "see the log", clock);
  const json room{{"why", "no_room"}, {"node", "t3"}, {"objects", 1}};
  const json failed{{"why", "failed"}, {"error", "the object has changed"}, {"objects", 1}};
  report = watch.report(clock);
  CHECK(report["waits"] == json::array({node, room, failed}));
  CHECK(report["buckets"]["7"]["waits"] == json::array({node, room}));
  CHECK(report["buckets"]["8"]["waits"] == json::array({failed}));
  watch.stop({});
  const json stopped{{"why", "stopped"}, {"objects", 2}};
  CHECK(watch.report(clock)["waits"] == json::array({node, room, failed, stopped}));
  watch.ask();
  watch.look_begins(1);
  watch.found({}, clock);
  watch.look_ends(true, "", clock);
  CHECK(watch.report(clock)["waits"].empty());
  CHECK(watch.report(clock)["buckets"].empty());
}

TEST_CASE("rebuild: having been fast is not held against it when clients come") {
  MoveLimits limits;
  limits.rebuild_min.set(1U << 20U);
  ManualClock clock;
  for (int i = 0; i < 1000; ++i) {
    CHECK(rebuild_wait(limits, 1U << 20U, clock.boot_time(), false).by == HeldBy::nothing);
    clock.advance(1ms);
  }
  clock.advance(600ms);
  CHECK(rebuild_wait(limits, 64U << 10U, clock.boot_time(), true).by == HeldBy::nothing);
}

}  // namespace rebuild_test
}  // namespace tarn::target

namespace tarn::proxy {
namespace rebuild_test {

TEST_CASE("rebuild: reasons of targets are summed, and who is down is said to be so") {
  using nlohmann::json;
  const auto waits = [](const char* node, int objects) {
    return json{{"why", "waits_for_node"}, {"node", node}, {"objects", objects}};
  };
  const json limit{{"why", "limit"}, {"setting", "rebalance.bandwidth"}, {"objects", 5}};
  const json reports{
      {"t1",
       {{"state", "working"},
        {"waits", {waits("t8", 2), limit}},
        {"buckets", {{"7", {{"left_objects", 5}, {"waits", json::array({waits("t8", 2)})}}}}}}},
      {"t2",
       {{"state", "working"},
        {"waits", {waits("t8", 1), waits("t9", 4)}},
        {"copies", {{"state", "working"}, {"waits", json::array({limit})}}}}},
      {"t3", {{"error", "it does not answer"}}},
      {"t4", {{"state", "whole"}}}};  // of an older version
  const json absent{{"t8", {{"down_seconds", 30}, {"out_in_seconds", 870}}}};
  const json sum = sum_of_waits(reports, absent);
  REQUIRE(sum.size() == 3);
  CHECK(sum[0]["setting"] == "rebalance.bandwidth");
  CHECK(sum[0]["objects"] == 10);
  CHECK(sum[0]["targets"] == json{"t1", "t2"});
  CHECK(sum[1]["node"] == "t8");
  CHECK(sum[1]["objects"] == 3);
  CHECK(sum[1]["down_seconds"] == 30);
  CHECK(sum[1]["out_in_seconds"] == 870);
  CHECK(sum[2]["node"] == "t9");
  CHECK_FALSE(sum[2].contains("down_seconds"));
  const json of_bucket = waits_of_bucket(reports, BucketId{7}, absent);
  REQUIRE(of_bucket.size() == 1);
  CHECK(of_bucket[0]["objects"] == 2);
  CHECK(of_bucket[0]["targets"] == json::array({"t1"}));
  CHECK(waits_of_bucket(reports, BucketId{9}, absent).empty());
}

TEST_CASE("rebuild: targets that are done leave their rates to the others, in part") {
  using nlohmann::json;
  const auto report = [](const char* state, const json& seconds) {
    return json{{"state", state},
                {"error", ""},
                {"seconds_left", seconds},
                {"rate", seconds.is_number() && seconds > 0 ? 100 : 0},
                {"copies", {{"state", "unknown"}, {"seconds_left", nullptr}}}};
  };
  json reports{{"t1", report("working", 20)}, {"t2", report("whole", 0)}};
  CHECK(rebuild_seconds_left(reports, {"t1", "t2"}) == 20.0);
  // 20 s and 80 s of work: 80 s if each stays as fast as it is, 50 s if they shared it.
  reports["t2"]["copies"] = {{"state", "working"}, {"seconds_left", 80}, {"rate", 100}};
  CHECK(rebuild_seconds_left(reports, {"t1", "t2"}) == Approx(std::sqrt(80.0 * 50.0)));
  reports["t4"] = {{"error", "it does not answer"}};
  CHECK(rebuild_seconds_left(reports, {"t1", "t2"}));  // it owns nothing
  CHECK_FALSE(rebuild_seconds_left(reports, {"t1", "t2", "t4"}));
  CHECK_FALSE(rebuild_seconds_left(reports, {"t1", "t2", "t3"}));
  reports["t1"] = report("waiting", nullptr);
  CHECK_FALSE(rebuild_seconds_left(reports, {"t1", "t2"}));
  json done{{"t1", report("whole", 0)}};
  CHECK(rebuild_seconds_left(done, {"t1"}) == 0.0);
}

}  // namespace rebuild_test
}  // namespace tarn::proxy

namespace tarn::api {
namespace rebuild_test {

TEST_CASE("rebuild plan: what a loss costs") {
  constexpr std::uint64_t kGiB = 1ULL << 30U;
  const std::vector<Stake> stakes{
      {.k = 8, .m = 2, .together = 1, .objects = 100, .bytes = 100 * kGiB},
      {.k = 8, .m = 2, .together = 2, .objects = 10, .bytes = 20 * kGiB},
      {.k = 1, .m = 1, .together = 1, .objects = 5, .bytes = 5 * kGiB},  // two copies
      {.k = 1, .m = 0, .together = 1, .objects = 3, .bytes = 3 * kGiB},  // the only one
      {.k = 1, .m = 1, .together = 2, .objects = 2, .bytes = 4 * kGiB},  // both on drives of it
  };
  const Loss loss = cost_of_loss(stakes, {.ceiling = kGiB, .floor = kGiB / 10});
  CHECK(loss.objects == 115);
  CHECK(loss.bytes == 125 * kGiB);
  CHECK(loss.read == (800 + 80 + 5) * kGiB);  // two slices of one object are made of one reading
  CHECK(loss.sources_least == 1);
  CHECK(loss.sources_most == 8);
  CHECK(loss.at_risk == 15);
  CHECK(loss.lost == 5);
  CHECK(loss.lost_bytes == 7 * kGiB);
  CHECK(loss.seconds_least.value() == Approx(125));
  CHECK(loss.seconds_most.value() == Approx(10'100));
}

TEST_CASE("rebuild plan: without limits nobody knows how long, nothing costs nothing") {
  const std::vector<Stake> stakes{{.k = 4, .m = 2, .together = 1, .objects = 1, .bytes = 10}};
  CHECK_FALSE(cost_of_loss(stakes, {}).seconds_least);
  CHECK_FALSE(cost_of_loss(stakes, {}).seconds_most);
  const Loss none = cost_of_loss({}, {});
  CHECK(none == Loss{.seconds_least = 0, .seconds_most = 0});
  const nlohmann::json text = none;
  CHECK(text["at_risk"] == 0);
  const Stake stake = nlohmann::json(stakes.front()).get<Stake>();
  CHECK(stake == stakes.front());
}

}  // namespace rebuild_test
}  // namespace tarn::api
