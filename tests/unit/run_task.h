#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_future.hpp>

#include "common/base/random.h"
#include "common/http/loops.h"

namespace tarn::test {

/// A loop of its own, on which a test runs one coroutine after the other.
class TaskRunner {
 public:
  template <class T>
  T operator()(Task<T> task) {
    return asio::co_spawn(loops_.at(0).executor(), std::move(task), asio::use_future).get();
  }
  [[nodiscard]] http::Loops& loops() { return loops_; }
  [[nodiscard]] asio::any_io_executor executor() { return loops_.at(0).executor(); }

 private:
  http::Loops loops_{1};
};

/// A directory that goes with the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory()
      : path_(std::filesystem::temp_directory_path() / ("tarn-test-" + random_id(10))) {
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Asks until it is so; false after a minute, which only guards against hanging.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// Runs `work` until it has taken less than `enough`, five times at most; the shortest time. A busy
/// machine may hold up one run, and not all of them.
inline std::chrono::steady_clock::duration fastest(std::chrono::steady_clock::duration enough,
                                                   const std::function<void()>& work) {
  auto best = std::chrono::steady_clock::duration::max();
  for (int run = 0; run < 5 && best >= enough; ++run) {
    const auto begun = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::steady_clock::now() - begun);
  }
  return best;
}

}  // namespace tarn::test
