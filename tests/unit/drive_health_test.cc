#include <chrono>
#include <future>
#include <thread>

#include "tests/unit/drive_fixture.h"

namespace drive_health_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

TEST_CASE("drive: asking for its state never waits for the drive", "[target][drive][health]") {
  Fixture f;
  std::promise<void> reached;
  std::promise<void> go_on;
  bool first = true;
  f.files->on_sync_directory = [&] {
    if (!std::exchange(first, false)) return;
    reached.set_value();
    go_on.get_future().wait();
  };
  // The first file of a drive makes a directory, and this drive hangs in its sync.
  auto putting = std::async(std::launch::async, [&] { return f.put("a", "one"); });
  reached.get_future().wait();
  auto asking = std::async(std::launch::async, [&] {
    static_cast<void>(f.drive->space());
    return f.drive->usable().has_value() && !f.drive->suspect();
  });
  const bool answered = asking.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  go_on.set_value();
  CHECK(answered);
  CHECK(asking.get());
  CHECK(putting.get());
}

TEST_CASE("drive: a failed write makes it suspect, the third within a minute ends it",
          "[target][drive][health]") {
  Fixture f;
  REQUIRE(f.put("a", "one"));
  f.files->fail_write = true;
  CHECK(f.put("b", "two").error().code == Errc::no_space);
  CHECK_FALSE(f.drive->suspect());  // full is not broken
  f.files->write_error = EIO;
  CHECK(f.put("b", "two").error().code == Errc::io);
  CHECK(f.drive->suspect());
  CHECK(f.drive->usable());
  f.files->fail_write = false;
  // New files go elsewhere, unless there is no other place.
  const auto refused = wait_for(f.drive->create(3, false));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::unavailable);
  CHECK(f.put("c", "three"));
  CHECK(**f.get("a") == "one");
  f.files->fail_write = true;
  CHECK_FALSE(f.put("d", "four"));
  CHECK(f.drive->usable());
  CHECK_FALSE(f.put("d", "four"));
  CHECK_FALSE(f.drive->usable());
  CHECK_FALSE(f.get("a"));
  CHECK(f.drive->counters().write_errors == 3);
}

TEST_CASE("drive: who asks for something new is refused when work has waited long",
          "[target][drive][health]") {
  Fixture f;
  CHECK(f.drive->not_overloaded());
  std::promise<void> go_on;
  const std::shared_future<void> waited = go_on.get_future().share();
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) f.drive->post([waited] { waited.wait(); });  // two threads, one waits
  const bool accepts = f.drive->not_overloaded().has_value();
  CHECK((accepts || std::chrono::steady_clock::now() - begun > std::chrono::seconds(2)));
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  CHECK(f.drive->not_overloaded().error().code == Errc::unavailable);
  go_on.set_value();
  CHECK(f.drive->run_idle(10));
  CHECK(f.drive->not_overloaded());
}

TEST_CASE("drive threads: what waits can be refused, what may not be refused waits",
          "[target][drive][health]") {
  io::DriveThreads threads("test", 1, 100);
  std::promise<void> go_on;
  const std::shared_future<void> waited = go_on.get_future().share();
  threads.post([waited] { waited.wait(); });
  std::atomic<int> refused{0};
  std::atomic<int> done{0};
  const auto count = [&] { threads.post([&] { ++done; }, [&](const Error&) { ++refused; }); };
  const auto run = [&]() -> Task<Status> {
    co_return co_await threads.run([]() -> Status { return {}; });
  };
  asio::io_context context;
  auto waiting = asio::co_spawn(context, run(), asio::use_future);
  context.poll();
  count();
  threads.post([&] { ++done; });
  CHECK(threads.longest_run() >= 0);
  threads.refuse({Errc::unavailable, "it hangs"});
  count();
  CHECK(refused == 2);
  context.run();
  CHECK(waiting.get().error().code == Errc::unavailable);
  CHECK_FALSE(wait_for(run()));
  CHECK(done == 0);
  go_on.set_value();
  CHECK(threads.drain(10));
  CHECK(done == 1);
  CHECK(threads.longest_run() == 0);
  threads.accept();
  CHECK(wait_for(run()));
  CHECK(threads.drain(10));  // a job counts once its thread is done with it, after the answer
  CHECK(threads.completed() == 3);
}

}  // namespace drive_health_test
