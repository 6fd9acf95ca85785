#include "common/io/drive_threads.h"

#include <chrono>
#include <sys/prctl.h>

namespace tarn::io {

/// Shared with the threads, so that abandoned ones have something to stand on.
struct DriveThreads::State {
  std::mutex mutex;
  std::condition_variable work_there;
  std::condition_variable idle;
  std::deque<std::unique_ptr<Job>> queue;
  std::size_t queue_max = 0;
  std::size_t busy = 0;
  bool stopping = false;
};

DriveThreads::DriveThreads(std::string name, std::size_t threads, std::size_t queue_max)
    : state_(std::make_shared<State>()) {
  state_->queue_max = queue_max;
  for (std::size_t i = 0; i < threads; ++i)
    threads_.emplace_back([state = state_, name] { serve(state, name); });
}

DriveThreads::~DriveThreads() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work_there.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void DriveThreads::serve(const std::shared_ptr<State>& state, const std::string& name) {
  prctl(PR_SET_NAME, name.substr(0, 15).c_str());
  std::unique_lock lock(state->mutex);
  while (true) {
    state->work_there.wait(lock, [&] { return state->stopping || !state->queue.empty(); });
    if (state->queue.empty()) return;
    auto job = std::move(state->queue.front());
    state->queue.pop_front();
    ++state->busy;
    lock.unlock();
    job->run();
    job.reset();
    lock.lock();
    --state->busy;
    if (state->busy == 0 && state->queue.empty()) state->idle.notify_all();
  }
}

void DriveThreads::enqueue(std::unique_ptr<Job> job) {
  std::unique_lock lock(state_->mutex);
  if (state_->queue.size() >= state_->queue_max) {
    lock.unlock();
    job->refuse({Errc::unavailable, "the drive's queue is full"});
    return;
  }
  state_->queue.push_back(std::move(job));
  lock.unlock();
  state_->work_there.notify_one();
}

void DriveThreads::post(std::function<void()> work) {
  struct PostedJob final : Job {
    explicit PostedJob(std::function<void()> its_work) : work(std::move(its_work)) {}
    void run() override { work(); }
    void refuse(Error) override {}
    std::function<void()> work;
  };
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue.push_back(std::make_unique<PostedJob>(std::move(work)));
  }
  state_->work_there.notify_one();
}

std::size_t DriveThreads::queued() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.size() + state_->busy;
}

bool DriveThreads::drain(double seconds) {
  std::unique_lock lock(state_->mutex);
  return state_->idle.wait_for(lock, std::chrono::duration<double>(seconds),
                               [&] { return state_->queue.empty() && state_->busy == 0; });
}

void DriveThreads::abandon() {
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.detach();
  threads_.clear();
}

}  // namespace tarn::io
