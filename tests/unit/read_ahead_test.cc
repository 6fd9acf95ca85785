#include "target/drive/read_ahead.h"

#include <fstream>
#include <future>

#include "tests/unit/drive_fixture.h"
#include "tests/unit/run_task.h"

namespace read_ahead_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

std::string some_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::uint64_t state = 88172645463325252U;
  for (char& byte : bytes) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    byte = static_cast<char>(state);
  }
  return bytes;
}

void flip(const std::filesystem::path& file, std::uint64_t offset) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(static_cast<std::streamoff>(offset));
  const char was = static_cast<char>(bytes.get());
  bytes.seekp(static_cast<std::streamoff>(offset));
  bytes.put(static_cast<char>(was ^ 1));
}

/// Bytes that a reader of [begin, end) would have sent, and how its reading ended.
struct Reading {
  std::string bytes;
  Status end;
};

Task<Reading> read(Fixture& f, std::string name, std::uint64_t begin, std::uint64_t end,
                   ReadAhead::Options options) {
  Reading reading;
  auto object = co_await f.drive->open_object(BucketId(1), name);
  if (!object || !*object) {
    reading.end = fail(Errc::object_not_found, "not there");
    co_return reading;
  }
  const auto ahead = std::make_shared<ReadAhead>(*object, begin, end, options);
  for (std::uint64_t at = begin; at < end;) {
    const auto ready = co_await ahead->ready(at);
    if (!ready) {
      reading.end = fail(ready.error());
      break;
    }
    REQUIRE(*ready > at);
    const std::uint64_t upto = std::min(*ready, end);
    std::string buffer(upto - at, '\0');
    REQUIRE(::pread((*object)->fd(), buffer.data(), buffer.size(), static_cast<off_t>(at)) ==
            static_cast<ssize_t>(buffer.size()));
    reading.bytes += buffer;
    at = upto;
    ahead->passed(at);
  }
  ahead->close();
  co_return reading;
}

Reading read_whole(Fixture& f, const std::string& name, std::uint64_t size,
                   ReadAhead::Options options = {}) {
  return wait_for(read(f, name, 0, size, options));
}

constexpr std::uint64_t kBig = 40 * kBlockBytes + 12345;

TEST_CASE("read ahead: brings every byte, in windows, and gives all turns back",
          "[target][read_ahead]") {
  Fixture f;
  const std::string content = some_bytes(kBig);
  REQUIRE(f.put("big", content));
  f.open();  // nothing is verified any more
  CHECK(read_whole(f, "big", kBig).bytes == content);
  CHECK(f.drive->counters().bytes_verified >= kBig);
  const auto part = wait_for(read(f, "big", 3'000'000, 30'000'001, {}));
  CHECK(part.bytes == content.substr(3'000'000, 27'000'001));
  f.quiesce();
  CHECK(f.drive->turns().streams() == 0);
  CHECK(f.drive->turns().waiting() == 0);
}

TEST_CASE("read ahead: what is read in the background keeps no client waiting",
          "[target][read_ahead]") {
  Fixture f;
  const std::string content = some_bytes(kBig);
  REQUIRE(f.put("big", content));
  f.open();
  for (const TurnFor purpose : {TurnFor::background, TurnFor::client}) {
    HeadTurns& turns = f.drive->turns();
    std::size_t held = 0;  // all turns are another's, for now
    for (turns.ask(0, [&](HeadTurns::Age) { ++held; }); turns.waiting() == 0;)
      turns.ask(0, [&](HeadTurns::Age) { ++held; }, nullptr, TurnFor::background);
    auto reading = std::async(std::launch::async, [&] {
      return read_whole(f, "big", kBig, {.verify_always = true, .purpose = purpose});
    });
    CHECK(tarn::test::eventually([&] { return turns.waiting() == 2; }));
    CHECK(turns.clients_wait() == (purpose == TurnFor::client));
    while (held > 0) {
      --held;
      turns.done();
    }
    CHECK(reading.get().bytes == content);
    f.quiesce();
  }
}

TEST_CASE("read ahead: what is in memory is verified again only when told to",
          "[target][read_ahead]") {
  Fixture f;
  REQUIRE(f.put("big", some_bytes(kBig)));
  f.open();
  REQUIRE(read_whole(f, "big", kBig).end);
  const std::uint64_t before = f.drive->counters().bytes_verified;
  REQUIRE(read_whole(f, "big", kBig).end);
  const std::uint64_t warm = f.drive->counters().bytes_verified - before;
  REQUIRE(read_whole(f, "big", kBig, {true, true}).end);
  const std::uint64_t always = f.drive->counters().bytes_verified - before - warm;
  CHECK(warm < kBig / 2);  // some pages may have been evicted by others
  CHECK(always == kBig);
}

TEST_CASE("read ahead: nothing at or behind a bad block is ready", "[target][read_ahead]") {
  Fixture f;
  const std::string content = some_bytes(kBig);
  REQUIRE(f.put("big", content));
  flip(f.data_files().front(), 20 * kBlockBytes + 5);
  f.open();
  const auto reading = read_whole(f, "big", kBig);
  REQUIRE_FALSE(reading.end);
  CHECK(reading.end.error().code == Errc::corrupt);
  CHECK(reading.bytes == content.substr(0, 20 * kBlockBytes));
}

TEST_CASE("read ahead: an adopted object streams, and is verified by its first reader",
          "[target][read_ahead][recovery]") {
  Fixture f;
  const std::string content = some_bytes(kBig);
  REQUIRE(f.put("big", content));
  f.lose_index();
  f.open();
  CHECK(read_whole(f, "big", kBig).bytes == content);
  auto again = wait_for(f.drive->open_object(BucketId(1), "big"));
  CHECK((*again)->has_checksums());
}

TEST_CASE("read ahead: who opened an adopted object before another adopted it skips no block",
          "[target][read_ahead][recovery]") {
  Fixture f;
  REQUIRE(f.put("big", some_bytes(kBig)));
  f.lose_index();
  f.open();
  const auto early = wait_for(f.drive->open_object(BucketId(1), "big"));
  REQUIRE((early && *early));
  REQUIRE(read_whole(f, "big", kBig).end);
  const OpenObject& object = **early;
  CHECK_FALSE(object.has_checksums());
  CHECK_FALSE(object.may_send(0, kBlockBytes));
  REQUIRE(wait_for(f.drive->adopt(**early)));
  CHECK(object.has_checksums());
  const auto later = wait_for(f.drive->open_object(BucketId(1), "big"));
  CHECK(object.may_send(0, kBlockBytes) == (*later)->may_send(0, kBlockBytes));
}

TEST_CASE(
    "read ahead: the last block of an adopted object that is not what was stored is held back",
    "[target][read_ahead][recovery]") {
  Fixture f;
  const std::string content = some_bytes(kBig);
  REQUIRE(f.put("big", content));
  flip(f.data_files().front(), 7);
  f.lose_index();
  f.open();
  const auto reading = read_whole(f, "big", kBig);
  REQUIRE_FALSE(reading.end);
  CHECK(reading.end.error().code == Errc::corrupt);
  CHECK(reading.bytes.size() == 40 * kBlockBytes);
  auto again = wait_for(f.drive->open_object(BucketId(1), "big"));
  CHECK_FALSE((*again)->has_checksums());
  CHECK_FALSE(wait_for(f.drive->adopt(**again)));
}

TEST_CASE("read ahead: a reader that leaves, and one whose pages vanish, hold no turn",
          "[target][read_ahead]") {
  Fixture f;
  const std::string content = some_bytes(kBig);
  REQUIRE(f.put("big", content));
  f.open();
  const auto leave = [&]() -> Task<void> {
    auto object = co_await f.drive->open_object(BucketId(1), "big");
    const auto ahead = std::make_shared<ReadAhead>(*object, 0, kBig, ReadAhead::Options());
    static_cast<void>(co_await ahead->ready(0));
    ahead->lost(0);
    const auto ready = co_await ahead->ready(0);
    CHECK(ready.has_value());
    ahead->close();
  };
  asio::io_context context;
  auto left = asio::co_spawn(context, leave(), asio::use_future);
  context.run();
  left.get();
  f.quiesce();
  CHECK(f.drive->turns().streams() == 0);
  CHECK(read_whole(f, "big", kBig).bytes == content);
}

TEST_CASE("read ahead: what was held for pages that vanished is given back at once",
          "[target][read_ahead]") {
  Fixture f;
  REQUIRE(f.put("big", some_bytes(kBig)));
  f.open();
  bool passed = false;
  const auto lose_often = [&]() -> Task<void> {
    auto object = co_await f.drive->open_object(BucketId(1), "big");
    const auto ahead =
        std::make_shared<ReadAhead>(*object, 0, kBig, ReadAhead::Options{true, true});
    // Windows of 4 MiB at least: together four times what may be held.
    for (int i = 0; i < 256; ++i) {
      const auto ready = co_await ahead->ready(0);
      CHECK(ready.has_value());
      ahead->lost(0);
    }
    ahead->close();
    passed = true;
  };
  asio::io_context context;
  auto done = asio::co_spawn(context, lose_often(), asio::use_future);
  context.run_for(std::chrono::seconds(60));
  REQUIRE(passed);
  done.get();
  f.quiesce();
}

TEST_CASE("cache policy: keeps what fits or comes round soon, drops what does not", "[target]") {
  CachePolicy policy(1000);
  policy.note_stored(400);
  CHECK(policy.keep(0));
  policy.note_stored(4000);
  CHECK_FALSE(policy.keep(0));  // never read before
  const std::uint64_t last = policy.now();
  policy.note_read(300);
  CHECK(policy.keep(last));
  policy.note_read(300);
  CHECK_FALSE(policy.keep(last));
  policy.note_removed(4200);
  CHECK(policy.keep(last));
}

}  // namespace read_ahead_test
