#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "common/base/async.h"

namespace boost::asio {
class io_context;
}

namespace tarn::http {

/// One event loop and its thread. Work that runs on a loop stays on it.
class Loop {
 public:
  Loop(std::size_t index, std::string name);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  [[nodiscard]] asio::io_context& context() noexcept { return *context_; }
  [[nodiscard]] asio::any_io_executor executor();
  [[nodiscard]] std::size_t index() const noexcept { return index_; }
  /// Time at which it last came round, as far as watch_loops() has looked (loop_watch.h). Any
  /// thread.
  [[nodiscard]] std::chrono::steady_clock::time_point came_round() const noexcept {
    return came_round_;
  }
  void comes_round() noexcept { came_round_ = std::chrono::steady_clock::now(); }
  /// Name in that of its thread ("loop-NAME") and in its metrics.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The loop that the calling thread runs, or null.
  [[nodiscard]] static Loop* current() noexcept;

 private:
  friend class Loops;
  struct Thread;
  std::size_t index_;
  std::string name_;
  std::atomic<std::chrono::steady_clock::time_point> came_round_{std::chrono::steady_clock::now()};
  std::unique_ptr<asio::io_context> context_;
  std::unique_ptr<Thread> thread_;
};

/// The event loops of a process: one a core.
class Loops {
 public:
  /// Starts `count` loops (0: one a core) on threads of their own. Their names are their numbers.
  explicit Loops(std::size_t count = 0);
  /// Starts one loop of this name, for work that must not wait for other work.
  explicit Loops(std::string name);
  /// Stops the loops and joins their threads. All work on them must have ended before.
  ~Loops();

  [[nodiscard]] std::size_t size() const noexcept { return loops_.size(); }
  [[nodiscard]] Loop& at(std::size_t index) noexcept { return *loops_[index]; }
  /// Runs `work` on every loop and waits until it has returned on all of them. Not from a loop.
  void run_on_each(const std::function<void(Loop&)>& work);
  /// Stops and joins; idempotent.
  void stop();

 private:
  std::vector<std::unique_ptr<Loop>> loops_;
};

/// Coroutines that end before their owner does: spawn() refuses after close(), close() cancels
/// those that run and waits until they have ended. Replaces detached. Thread-safe.
///
/// A task ends upon a cancellation in one of two ways. As long as Asio's throw_if_cancelled() is
/// on, which is so at its begin, its next co_await throws. After throw_if_cancelled(false) it must
/// ask is_cancelled() (common/base/resume.h) in each of its loops. The setting is one for a task
/// and all that it awaits: a function that other tasks await restores it (cancellation_as_value()).
class TaskGroup {
 public:
  TaskGroup();
  /// Aborts when tasks still run, as they may use memory that goes next: call close() or wait()
  /// first. A process in which these have returned false ends without destructors (std::_Exit).
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  /// Starts `task` on `executor`. False when the group is closed; the task is then not started. Its
  /// outermost catch is here: its exception is logged as an error. Logs call it `name`, which
  /// several tasks may share.
  bool spawn(asio::any_io_executor executor, std::string name, Task<void> task);
  /// Asks all tasks to stop (Asio's terminal cancellation), refuses new ones, and blocks until none
  /// is left or `seconds` have passed. Not from a loop. True when none is left; else a warning has
  /// the names of those that are.
  bool close(double seconds);
  /// Refuses new tasks and blocks until none is left or `seconds` have passed; cancels nothing. Not
  /// from a loop. True when none is left.
  bool wait(double seconds);
  [[nodiscard]] std::size_t running() const;
  /// Names of the tasks that run, sorted, each with their number if several have it: "list, get
  /// x3".
  [[nodiscard]] std::string names() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tarn::http
