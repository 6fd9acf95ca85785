#include "common/http/loops.h"

#include <future>
#include <map>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <system_error>
#include <thread>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <sched.h>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/obs/log.h"

namespace tarn::http {
namespace {

thread_local Loop* current_loop = nullptr;

}  // namespace

struct Loop::Thread {
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::thread thread;
};

Loop::Loop(std::size_t index, std::string name)
    : index_(index), name_(std::move(name)), context_(std::make_unique<asio::io_context>(1)) {
  thread_ = std::make_unique<Thread>(Thread{asio::make_work_guard(*context_), {}});
  thread_->thread = std::thread([this] {
    prctl(PR_SET_NAME, ("loop-" + name_).c_str());
    current_loop = this;
    context_->run();
  });
}

Loop::~Loop() = default;

asio::any_io_executor Loop::executor() { return context_->get_executor(); }

Loop* Loop::current() noexcept { return current_loop; }

namespace {

/// The processors that this process may run on: taskset and cgroups leave fewer than the machine
/// has.
std::size_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
    return static_cast<std::size_t>(CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

Loops::Loops(std::size_t count) {
  if (count == 0) count = usable_processors();
  try {
    for (std::size_t i = 0; i < count; ++i)
      loops_.push_back(std::make_unique<Loop>(i, std::to_string(i)));
  } catch (const std::system_error&) {  // no further thread can be had
    stop();
    throw;
  }
}

Loops::Loops(std::string name) { loops_.push_back(std::make_unique<Loop>(0, std::move(name))); }

Loops::~Loops() { stop(); }

void Loops::run_on_each(const std::function<void(Loop&)>& work) {
  TARN_CHECK(Loop::current() == nullptr);
  std::vector<std::future<void>> done;
  for (auto& loop : loops_) {
    auto promise = std::make_shared<std::promise<void>>();
    done.push_back(promise->get_future());
    asio::post(loop->context(), [promise, &work, loop = loop.get()] {
      work(*loop);
      promise->set_value();
    });
  }
  for (auto& each : done) each.wait();
}

void Loops::stop() {
  for (auto& loop : loops_) {
    if (!loop->thread_->thread.joinable()) continue;
    loop->thread_->work.reset();
    loop->context().stop();
  }
  for (auto& loop : loops_)
    if (loop->thread_->thread.joinable()) loop->thread_->thread.join();
}

struct TaskGroup::State {
  struct Entry {
    asio::any_io_executor executor;
    std::string name;
    std::shared_ptr<asio::cancellation_signal> signal;
  };
  Mutex mutex;
  ConditionVariable changed;
  std::map<std::uint64_t, Entry> tasks TARN_GUARDED_BY(mutex);
  std::uint64_t next TARN_GUARDED_BY(mutex) = 0;
  bool closed TARN_GUARDED_BY(mutex) = false;
  bool cancelled TARN_GUARDED_BY(mutex) = false;

  [[nodiscard]] bool is_cancelled() {
    const MutexLock lock(mutex);
    return cancelled;
  }
  void ended(std::uint64_t id, const std::exception_ptr& error) {
    const std::string problem = error ? problem_in(error) : "";
    const MutexLock lock(mutex);
    const auto task = tasks.extract(id);
    if (!problem.empty())
      obs::log("task").error("task failed task={} err={}", task.mapped().name, problem);
    changed.notify_all();
  }
  /// False if tasks still run after so many seconds.
  [[nodiscard]] bool wait(MutexLock& lock, double seconds) TARN_REQUIRES(mutex) {
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::ceil<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(seconds));
    while (!tasks.empty())
      if (!changed.wait_until(lock, until)) return tasks.empty();
    return true;
  }
  [[nodiscard]] std::string names() const TARN_REQUIRES(mutex) {
    std::map<std::string_view, std::size_t> counts;
    for (const auto& [id, task] : tasks) ++counts[task.name];
    std::string out;
    for (const auto& [name, count] : counts) {
      out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
      if (count > 1) out += fmt::format(" x{}", count);
    }
    return out;
  }
  /// Empty for a cancellation.
  static std::string problem_in(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const boost::system::system_error& problem) {
      return problem.code() == asio::error::operation_aborted ? "" : problem.what();
    } catch (const std::exception& problem) {
      return problem.what();
    }
  }
};

TaskGroup::TaskGroup() : state_(std::make_shared<State>()) {}

TaskGroup::~TaskGroup() { TARN_CHECK(running() == 0); }

bool TaskGroup::spawn(asio::any_io_executor executor, std::string name, Task<void> task) {
  std::uint64_t id = 0;
  auto signal = std::make_shared<asio::cancellation_signal>();
  {
    const MutexLock lock(state_->mutex);
    if (state_->closed) return false;
    id = state_->next++;
    state_->tasks.emplace(id, State::Entry{executor, std::move(name), signal});
  }
  // Started on its own executor, where close() emits the signal, too. A loop runs its own posts
  // after those of other threads meanwhile: a signal that came first reached no task.
  const auto loop = executor;
  asio::post(loop, [state = state_, id, signal, executor = std::move(executor),
                    task = std::move(task)]() mutable {
    auto ended = [state, id, signal](const std::exception_ptr& error) { state->ended(id, error); };
    asio::co_spawn(executor, std::move(task),
                   asio::bind_cancellation_slot(signal->slot(), std::move(ended)));
    if (state->is_cancelled()) signal->emit(asio::cancellation_type::terminal);
  });
  return true;
}

bool TaskGroup::close(double seconds) {
  TARN_CHECK(Loop::current() == nullptr);
  MutexLock lock(state_->mutex);
  state_->closed = true;
  state_->cancelled = true;
  for (const auto& [id, entry] : state_->tasks)
    asio::post(entry.executor,
               [signal = entry.signal] { signal->emit(asio::cancellation_type::terminal); });
  if (state_->wait(lock, seconds)) return true;
  const std::string left = state_->names();
  lock.unlock();
  obs::log("task").warn("tasks still run seconds={} tasks={}", seconds, left);
  return false;
}

bool TaskGroup::wait(double seconds) {
  TARN_CHECK(Loop::current() == nullptr);
  MutexLock lock(state_->mutex);
  state_->closed = true;
  return state_->wait(lock, seconds);
}

std::size_t TaskGroup::running() const {
  const MutexLock lock(state_->mutex);
  return state_->tasks.size();
}

std::string TaskGroup::names() const {
  const MutexLock lock(state_->mutex);
  return state_->names();
}

}  // namespace tarn::http
