#include "common/io/drive_threads.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <sys/prctl.h>
#include <system_error>

namespace tarn::io {

using SteadyTime = std::chrono::steady_clock::time_point;

struct DriveThreads::Waiting {
  std::unique_ptr<Job> job;
  SteadyTime since;
};

/// Shared with the threads, so that abandoned ones keep their memory.
struct DriveThreads::State {
  Mutex mutex;
  ConditionVariable work_there;
  ConditionVariable idle;
  std::deque<Waiting> begun TARN_GUARDED_BY(mutex);
  std::deque<Waiting> fresh TARN_GUARDED_BY(mutex);

  [[nodiscard]] std::size_t waiting() const TARN_REQUIRES(mutex) {
    return begun.size() + fresh.size();
  }
  std::unique_ptr<Job> next() TARN_REQUIRES(mutex) {
    // Every fourth may be a new one: uploads without end shall not keep readers out.
    const bool its_turn = ++taken % 4 == 0 && !fresh.empty();
    auto& queue = begun.empty() || its_turn ? fresh : begun;
    auto job = std::move(queue.front().job);
    queue.pop_front();
    return job;
  }
  /// Takes out all work that may be refused.
  std::vector<std::unique_ptr<Job>> refusable() TARN_REQUIRES(mutex) {
    std::vector<std::unique_ptr<Job>> out;
    for (auto* queue : {&begun, &fresh}) {
      std::deque<Waiting> kept;
      for (Waiting& each : *queue) {
        if (each.job->may_be_refused()) {
          out.push_back(std::move(each.job));
        } else {
          kept.push_back(std::move(each));
        }
      }
      queue->swap(kept);
    }
    return out;
  }
  std::optional<Error> refusing TARN_GUARDED_BY(mutex);
  std::list<SteadyTime> running TARN_GUARDED_BY(mutex);  // their begins, the oldest first
  std::uint64_t completed TARN_GUARDED_BY(mutex) = 0;
  std::size_t taken TARN_GUARDED_BY(mutex) = 0;
  std::size_t queue_max TARN_GUARDED_BY(mutex) = 0;
  std::size_t busy TARN_GUARDED_BY(mutex) = 0;
  bool stopping TARN_GUARDED_BY(mutex) = false;
};

DriveThreads::DriveThreads(const std::string& name, std::size_t threads, std::size_t queue_max)
    : state_(std::make_shared<State>()) {
  state_->queue_max = queue_max;
  try {
    for (std::size_t i = 0; i < threads; ++i)
      threads_.emplace_back([state = state_, name] { serve(state, name); });
  } catch (const std::system_error&) {  // no further thread can be had
    end();
    throw;
  }
}

DriveThreads::~DriveThreads() { end(); }

void DriveThreads::end() {
  {
    const MutexLock lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work_there.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void DriveThreads::serve(const std::shared_ptr<State>& state, const std::string& name) {
  prctl(PR_SET_NAME, name.substr(0, 15).c_str());
  MutexLock lock(state->mutex);
  while (true) {
    while (!state->stopping && state->waiting() == 0) state->work_there.wait(lock);
    if (state->waiting() == 0) return;
    auto job = state->next();
    ++state->busy;
    const auto began =
        state->running.insert(state->running.end(), std::chrono::steady_clock::now());
    lock.unlock();
    job->run();
    job.reset();
    lock.lock();
    --state->busy;
    ++state->completed;
    state->running.erase(began);
    if (state->busy == 0 && state->waiting() == 0) state->idle.notify_all();
  }
}

void DriveThreads::enqueue(std::unique_ptr<Job> job, Order order) {
  MutexLock lock(state_->mutex);
  std::optional<Error> refused = state_->refusing;
  if (!refused && state_->waiting() >= state_->queue_max)
    refused = {Errc::unavailable, "the drive's queue is full"};
  if (refused) {
    lock.unlock();
    job->refuse(std::move(*refused));
    return;
  }
  auto& queue = order == Order::begun ? state_->begun : state_->fresh;
  queue.push_back({std::move(job), std::chrono::steady_clock::now()});
  lock.unlock();
  state_->work_there.notify_one();
}

struct DriveThreads::PostedJob final : Job {
  PostedJob(std::function<void()> its_work, std::function<void(Error)> its_refused)
      : work(std::move(its_work)), refused(std::move(its_refused)) {}
  void run() override { work(); }
  void refuse(Error why) override { refused(std::move(why)); }
  [[nodiscard]] bool may_be_refused() const override { return refused != nullptr; }
  std::function<void()> work;
  std::function<void(Error)> refused;
};

void DriveThreads::post(std::function<void()> work, std::function<void(Error)> refused) {
  auto job = std::make_unique<PostedJob>(std::move(work), std::move(refused));
  MutexLock lock(state_->mutex);
  if (state_->refusing && job->may_be_refused()) {
    const Error why = *state_->refusing;
    lock.unlock();
    job->refuse(why);
    return;
  }
  state_->begun.push_back({std::move(job), std::chrono::steady_clock::now()});
  lock.unlock();
  state_->work_there.notify_one();
}

void DriveThreads::refuse(const Error& why) {
  std::vector<std::unique_ptr<Job>> refused;
  {
    const MutexLock lock(state_->mutex);
    state_->refusing = why;
    refused = state_->refusable();
  }
  for (const auto& job : refused) job->refuse(why);
}

void DriveThreads::accept() {
  const MutexLock lock(state_->mutex);
  state_->refusing.reset();
}

std::size_t DriveThreads::queued() const {
  const MutexLock lock(state_->mutex);
  return state_->waiting() + state_->busy;
}

double DriveThreads::longest_wait() const {
  const MutexLock lock(state_->mutex);
  const auto now = std::chrono::steady_clock::now();
  std::chrono::duration<double> longest(0);
  for (const auto* queue : {&state_->begun, &state_->fresh})
    if (!queue->empty()) longest = std::max(longest, {now - queue->front().since});
  return longest.count();
}

double DriveThreads::longest_run() const {
  const MutexLock lock(state_->mutex);
  if (state_->running.empty()) return 0;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - state_->running.front())
      .count();
}

std::uint64_t DriveThreads::completed() const {
  const MutexLock lock(state_->mutex);
  return state_->completed;
}

bool DriveThreads::drain(double seconds) {
  MutexLock lock(state_->mutex);
  const auto until = std::chrono::steady_clock::now() + std::chrono::ceil<SteadyTime::duration>(
                                                            std::chrono::duration<double>(seconds));
  while (state_->waiting() > 0 || state_->busy > 0)
    if (!state_->idle.wait_until(lock, until)) return state_->waiting() == 0 && state_->busy == 0;
  return true;
}

void DriveThreads::abandon() {
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.detach();
  threads_.clear();
}

}  // namespace tarn::io
