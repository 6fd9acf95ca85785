#include "target/drive/write_behind.h"

#include <future>

#include "tests/unit/drive_fixture.h"
#include "tests/unit/run_task.h"

namespace write_behind_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

constexpr std::size_t kBuffer = 256U << 10U;
constexpr std::uint64_t kMiB = 1U << 20U;

/// An upload as PUT does it: buffer by buffer, the next one when there is room.
Task<Status> upload(Fixture& f, std::string name, std::string content) {
  CO_TRY(auto file, co_await f.drive->create(content.size(), true));
  const auto bytes = std::as_bytes(std::span(content));
  for (std::size_t at = 0; at < bytes.size(); at += kBuffer) {
    const auto buffer = bytes.subspan(at, std::min(kBuffer, bytes.size() - at));
    CO_TRY_OK(co_await f.drive->write(*file, buffer, at).get());
    CO_TRY_OK(co_await f.drive->room(*file));
  }
  io::ObjectAttribute attribute;
  attribute.bucket_id = BucketId(1);
  attribute.bucket.name = "b";
  attribute.name = name;
  attribute.record.generation = {1, 1, ++f.counter};
  attribute.record.file = file->name();
  attribute.record.size = content.size();
  attribute.record.xxh64 = xxh64(content);
  std::vector<std::uint32_t> blocks;
  for (std::size_t at = 0; at < content.size(); at += kBlockBytes)
    blocks.push_back(crc32c(std::string_view(content).substr(at, kBlockBytes)));
  co_return co_await f.drive->publish(*file, {attribute, blocks, std::nullopt, false, {}});
}

struct Rotational : Fixture {
  Rotational() {
    kind = io::DriveKind::rotational;
    open();
    files->on_write_back = [this](std::uint64_t offset, std::uint64_t bytes) {
      const std::lock_guard lock(mutex);
      windows.emplace_back(offset, bytes);
    };
  }
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> windows;  // offset, length
};

TEST_CASE("write behind: an upload comes to a rotational drive in long runs, each byte once",
          "[target][write_behind]") {
  Rotational f;
  const std::string content(50 * kMiB + 77, 'x');
  REQUIRE(wait_for(upload(f, "big", content)));
  REQUIRE(f.windows.size() >= 3);
  std::uint64_t at = 0;
  for (const auto& [offset, bytes] : f.windows) {
    CHECK(offset == at);
    at += bytes;
    const bool last = at >= content.size() - kMiB;
    CHECK((last || bytes >= 8 * kMiB));
    CHECK(bytes <= 32 * kMiB + kBuffer);
  }
  CHECK(at >= content.size() - kMiB);  // the rest is the sync's
  CHECK(**f.get("big") == content);
  f.quiesce();
  CHECK(f.drive->turns().waiting() == 0);
}

TEST_CASE("write behind: a window waits for its turn, and the upload for the window",
          "[target][write_behind]") {
  Rotational f;
  std::promise<void> granted;
  f.drive->turns().ask(0, [&](HeadTurns::Age) { granted.set_value(); });  // a reader's, for now
  granted.get_future().wait();
  auto putting = std::async(
      std::launch::async, [&] { return wait_for(upload(f, "big", std::string(64 * kMiB, 'x'))); });
  // The file holds what two windows hold, and nothing further.
  const auto written = [&] { return f.drive->io_counters().written_bytes.load(); };
  CHECK(tarn::test::eventually([&] { return written() >= 2 * f.drive->turns().window(); }));
  CHECK(putting.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  CHECK(f.windows.empty());
  CHECK(f.drive->turns().waiting() == 1);
  CHECK(f.drive->turns().clients_wait());
  CHECK(written() <= 33 * kMiB + kBuffer);
  f.drive->turns().done();
  CHECK(putting.get());
}

TEST_CASE("write behind: what is written in the background keeps no client waiting",
          "[target][write_behind]") {
  Rotational f;
  f.drive->turns().ask(0, [](HeadTurns::Age) {});  // a reader's, for now
  const auto fill = [](Fixture& its) -> Task<Result<std::unique_ptr<WorkFile>>> {
    CO_TRY(auto file, co_await its.drive->create(std::nullopt, true));
    file->write_in_background();
    const std::string buffer(20 * kMiB, 'x');
    CO_TRY_OK(co_await its.drive->write(*file, std::as_bytes(std::span(buffer)), 0).get());
    co_return file;
  };
  const auto file = wait_for(fill(f));
  REQUIRE(file);
  CHECK(tarn::test::eventually([&] { return f.drive->turns().waiting() == 1; }));
  CHECK_FALSE(f.drive->turns().clients_wait());
  f.drive->turns().done();
}

TEST_CASE("write behind: small files take no turn", "[target][write_behind]") {
  Rotational f;
  f.drive->turns().ask(0, [](HeadTurns::Age) {});
  REQUIRE(wait_for(upload(f, "small", std::string(100'000, 'x'))));
  CHECK(f.windows.empty());
  f.drive->turns().done();
}

TEST_CASE("write behind: an error of the drive ends the upload and the drive",
          "[target][write_behind][health]") {
  Rotational f;
  f.files->fail_write_back = true;
  CHECK_FALSE(wait_for(upload(f, "big", std::string(64 * kMiB, 'x'))));
  CHECK_FALSE(f.drive->usable());
  CHECK(f.drive->counters().sync_errors == 1);
  CHECK(f.windows.size() == 1);  // never asked again
}

TEST_CASE("write behind: an upload that goes away in the middle leaves nothing and holds no turn",
          "[target][write_behind]") {
  Rotational f;
  const auto give_up = [](Fixture& its) -> Task<Status> {
    CO_TRY(auto file, co_await its.drive->create(std::nullopt, true));
    const std::string buffer(20 * kMiB, 'x');
    const auto bytes = std::as_bytes(std::span(buffer));
    co_return co_await its.drive->write(*file, bytes, 0).get();
  };
  REQUIRE(wait_for(give_up(f)));
  f.quiesce();
  CHECK(f.data_files().empty());
  CHECK(f.drive->turns().waiting() == 0);
  REQUIRE(wait_for(upload(f, "big", std::string(20 * kMiB, 'x'))));
}

}  // namespace write_behind_test
