#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/move_progress.h"
#include "target/drive/misplaced_mark.h"
#include "target/node/move_limits.h"
#include "target/node/moves.h"
#include "target/node/resilver_request.h"
#include "target/rebalance/resilver.h"
#include "target/replica/move_format.h"
#include "target/replica/move_offer.h"

namespace move_test {

using namespace tarn;
using namespace tarn::target;
using namespace std::chrono_literals;
using Kind = io::ObjectRecord::Kind;

io::ObjectRecord record(Kind kind, Generation generation) {
  io::ObjectRecord out;
  out.kind = kind;
  out.generation = generation;
  return out;
}

std::shared_ptr<const cluster::Ownership> map_of(const std::vector<std::string>& owners,
                                                 std::uint64_t version) {
  cluster::Ownership map;
  map.version = version - 1;
  std::vector<cluster::Member> members;
  members.reserve(owners.size());
  for (const std::string& id : owners)
    members.push_back({id, cluster::placement_digest(id), 1.0, 1, 0});
  return std::make_shared<const cluster::Ownership>(cluster::with_members(map, members));
}

TEST_CASE("move: an offer comes back as it was, names of any bytes too", "[move]") {
  const Offer offer{BucketId(7),
                    3,
                    9,
                    {{"a/b c%", Kind::object, {1, 2, 3}},
                     {"\xff\xfe\n\"", Kind::tombstone, {~0ULL, ~0ULL, ~0ULL}}}};
  CHECK(decode_offer(encode(offer)).value() == offer);
  CHECK(decode_wanted(encode_wanted({0, 1}), 2).value() == std::vector<std::size_t>{0, 1});
  CHECK(decode_wanted(encode_wanted({}), 0).value().empty());
}

TEST_CASE("move: an offer that is none is refused with what is wrong", "[move]") {
  const std::string good =
      R"({"bucket":1,"bmd":1,"map":1,"names":[{"name":"x","kind":1,"generation":[1,2,3]}]})";
  REQUIRE(decode_offer(good));
  for (const auto& [what, with] : std::vector<std::pair<std::string, std::string>>{
           {R"("kind":1)", R"("kind":3)"},
           {R"("kind":1)", R"("kind":"object")"},
           {"[1,2,3]", "[1,2]"},
           {"[1,2,3]", "[1,2,-3,4]"},
           {R"("x")", R"("%4")"},
           {R"("bucket":1)", R"("bucket":"b")"},
           {"]}", "]"},
       }) {
    std::string bad = good;
    bad.replace(bad.find(what), what.size(), with);
    INFO(bad);
    const auto decoded = decode_offer(bad);
    REQUIRE_FALSE(decoded);
    CHECK(decoded.error().code == Errc::invalid_argument);
    CHECK(decoded.error().message.find("offer") == 0);
  }
  Offer large;
  large.names.resize(Offer::kNamesMax + 1);
  CHECK_FALSE(decode_offer(encode(large)));
  CHECK_FALSE(decode_wanted(R"({"wanted":[2]})", 2));
  CHECK_FALSE(decode_wanted("{}", 2));
}

TEST_CASE("move: only what is newer than all that is there is wanted", "[move]") {
  CHECK(wants(std::nullopt, {1, 1, 1}));
  for (const Kind kind : {Kind::object, Kind::tombstone}) {
    CHECK(wants(record(kind, {3, 5, 7}), {3, 5, 8}));
    CHECK(wants(record(kind, {3, 5, 7}), {4, 1, 1}));
    CHECK_FALSE(wants(record(kind, {3, 5, 7}), {3, 5, 7}));
    CHECK_FALSE(wants(record(kind, {3, 5, 7}), {3, 4, 9}));
    CHECK_FALSE(wants(record(kind, {3, 5, 7}), {2, 9, 9}));
  }
}

TEST_CASE("move: the length of a copy counts its checksums", "[move]") {
  CHECK(copy_length("12345", 0) == 5);
  CHECK(copy_length("12345", 1) == 5 + 4 + 1);
  CHECK(copy_length("12345", kBlockBytes) == 5 + 4 + kBlockBytes);
  CHECK(copy_length("12345", kBlockBytes + 1) == 5 + 8 + kBlockBytes + 1);
  for (const std::uint32_t each : {0U, 1U, 0x80FF7F01U, ~0U})
    CHECK(from_little_endian(little_endian(each)) == each);
}

TEST_CASE("move: a rate is kept, and another one counts at once", "[move]") {
  RateLimiter limiter;
  BootTime now = 100s;
  CHECK(limiter.take(1U << 30U, now) == 0ns);
  limiter.set(1000);
  std::uint64_t passed = 0;
  const BootTime end = now + 10s;
  while (now < end) {
    const auto wait = limiter.take(100, now);
    if (wait == 0ns) passed += 100;
    now += wait;
  }
  CHECK(passed >= 9'900);
  CHECK(passed <= 10'400);  // a quarter of a second was saved up
  // One request may be as large as it likes: those after it wait.
  now += 1s;
  CHECK(limiter.take(5'000, now) == 0ns);
  const auto wait = limiter.take(100, now);
  CHECK(wait > 4s);
  limiter.set(100'000);
  CHECK(limiter.take(100, now) < 100ms);
  limiter.set(RateLimiter::kUnlimited);
  CHECK(limiter.take(100, now) == 0ns);
}

TEST_CASE("move: copies are taken by the map that is known only", "[move]") {
  Moves moves("t1");
  const std::string uname = "ais/@#/b/x";
  const auto code = [&](const cluster::CopySender& sender) -> std::optional<Errc> {
    const Status accepted = moves.accepts(uname, 1, sender);
    if (accepted) return std::nullopt;
    return accepted.error().code;
  };
  CHECK(code({"t2", 1}) == Errc::unavailable);
  moves.learn(map_of({"t1"}, 5));
  CHECK(code({"t2", 5}) == Errc::conflict);  // not in the map
  moves.learn(map_of({"t1", "t2"}, 6));
  moves.learn(map_of({"t1"}, 5));
  CHECK(moves.map()->version == 6);
  const bool ours = moves.map()->current.owner(cluster::placement_digest(uname)) == "t1";
  CHECK(code({"t2", 6}) == (ours ? std::nullopt : std::optional(Errc::conflict)));
  CHECK(code({"t2", 5}) == Errc::conflict);
  CHECK(code({"t2", 7}) == Errc::unavailable);
}

TEST_CASE("move: a request for a resilver is one job until a walk that began behind it ends well",
          "[move]") {
  using namespace std::chrono_literals;
  using By = ResilverRequest::By;
  using End = ResilverRequest::End;
  ResilverRequest request;
  CHECK(request.job(1s).empty());
  const auto early = request.begin();
  request.ask(By::drives);
  const std::string job = request.job(1s);
  CHECK(job.size() == 10);
  CHECK(request.job(2s) == job);
  request.end(early, End::clean, 3s);
  CHECK(request.job(3s) == job);
  // One that failed is another job, later each time.
  request.end(request.begin(), End::failed, 10s);
  CHECK(request.job(14s).empty());
  CHECK_FALSE(request.job(15s).empty());
  CHECK(request.job(15s) != job);
  request.end(request.begin(), End::failed, 20s);
  CHECK(request.job(29s).empty());
  CHECK_FALSE(request.job(30s).empty());
  request.end(request.begin(), End::clean, 30s);
  CHECK(request.job(1h).empty());
  CHECK(request.ended() == 4);
  // A stopped job is no longer wanted; an operator's drive is emptied all the same.
  request.ask(By::drives);
  request.end(request.begin(), End::stopped, 31s);
  CHECK(request.job(1h).empty());
  request.enabled = false;
  request.ask(By::drives);
  CHECK(request.job(32s).empty());
  request.ask(By::order);
  CHECK_FALSE(request.job(32s).empty());
  request.end(request.begin(), End::stopped, 33s);
  CHECK_FALSE(request.job(38s).empty());
}

TEST_CASE("move: what a resilver does with a record that is misplaced", "[move]") {
  const Generation older{1, 1, 1};
  const Generation newer{1, 1, 2};
  CHECK(resilver_step({}, 0, 1) == ResilverStep::nothing);
  CHECK(resilver_step({{2, newer}}, 0, 1) == ResilverStep::nothing);
  CHECK(resilver_step({{0, newer}}, 0, 0) == ResilverStep::nothing);
  CHECK(resilver_step({{0, newer}}, 0, 1) == ResilverStep::move);
  CHECK(resilver_step({{0, newer}, {1, older}}, 0, 1) == ResilverStep::move);
  CHECK(resilver_step({{1, newer}, {0, older}}, 0, 1) == ResilverStep::erase);
  // A crash came between the two steps of a move.
  CHECK(resilver_step({{0, newer}, {1, newer}}, 0, 1) == ResilverStep::erase);
  CHECK(resilver_step({{2, newer}, {0, older}}, 0, 1) == ResilverStep::erase);
  // Two strays that are equal: one of them goes to its place, and then the other goes.
  CHECK(resilver_step({{2, newer}, {0, newer}}, 0, 1) == ResilverStep::move);
}

TEST_CASE("move: a mark of misplaced objects is not cleared past a record that comes", "[move]") {
  MisplacedMark mark;
  int committed = 0;
  const auto commit = [&]() -> Status {
    ++committed;
    return {};
  };
  mark.set(true);
  const auto before = mark.moment();
  REQUIRE(before);
  {
    const MisplacedMark::Coming coming(mark);
  }
  CHECK_FALSE(mark.clear(*before, commit).value());
  CHECK(mark.is_set());
  {
    const MisplacedMark::Coming coming(mark);
    CHECK_FALSE(mark.moment());
  }
  const auto later = mark.moment();
  REQUIRE(later);
  CHECK_FALSE(mark.clear(*later, [] { return Status(fail(Errc::io, "no")); }));
  CHECK(mark.is_set());
  CHECK(mark.clear(*later, commit).value());
  CHECK_FALSE(mark.is_set());
  CHECK(committed == 1);
  const MisplacedMark::Coming coming(mark);
  CHECK(mark.is_set());
}

TEST_CASE("move: progress reads as that of a bucket copy, too", "[move]") {
  api::MoveProgress progress{"rebalance", 9, {1, 2, 3, 4, {{"t2", {5, 6}}}, true, "why"},
                             7,           8, true};
  const auto json = nlohmann::json(progress);
  CHECK(json.get<api::MoveProgress>() == progress);
  CHECK(json.get<api::CopyProgress>() == progress.counts);
}

}  // namespace move_test
