#include "target/drive/block_writer.h"

#include <atomic>
#include <future>
#include <thread>

#include <boost/asio/steady_timer.hpp>

#include "tests/unit/drive_fixture.h"
#include "tests/unit/run_task.h"

namespace block_writer_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

/// Gives one byte, and then nothing for an hour.
Task<Result<std::size_t>> one_and_no_other(bool& given) {
  if (!std::exchange(given, true)) co_return 1;
  asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::hours(1));
  co_await timer.async_wait(asio::use_awaitable);
  co_return 0;
}

/// Notes that the work file is about to go.
struct Note {
  explicit Note(std::atomic<bool>& its) : gone(its) {}
  ~Note() { gone = true; }
  Note(const Note&) = delete;
  Note& operator=(const Note&) = delete;
  std::atomic<bool>& gone;
};

Task<void> write_slowly(Drive& drive, std::atomic<bool>& gone) {
  auto file = co_await drive.create(2, true);
  const Note note(gone);
  bool given = false;
  (void)co_await write_from(**file, 0, [&](auto) { return one_and_no_other(given); });
}

Task<void> nothing() { co_return; }

TEST_CASE("block writer: a file stays until the drive has written, also when its writer is stopped",
          "[target][block_writer]") {
  Fixture f;
  std::promise<void> begun;
  std::promise<void> may_end;
  f.files->on_write = [&] {
    begun.set_value();
    may_end.get_future().wait();
  };
  tarn::test::TaskRunner run;
  http::TaskGroup tasks;
  std::atomic<bool> gone = false;
  REQUIRE(tasks.spawn(run.executor(), "writer", write_slowly(*f.drive, gone)));
  begun.get_future().wait();
  auto closed = std::async(std::launch::async, [&] { return tasks.close(90); });
  while (tasks.spawn(run.executor(), "nothing", nothing())) std::this_thread::yield();
  for (int i = 0; i < 10; ++i) run(nothing());  // the loop has told the writer
  CHECK_FALSE(gone);
  may_end.set_value();
  CHECK(closed.get());
  CHECK(gone);
  CHECK(f.drive->run_idle(5));
}

}  // namespace block_writer_test
