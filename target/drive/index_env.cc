#include "target/drive/index_env.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <sys/prctl.h>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

/// Threads that run RocksDB's background work, first come first served.
class WorkQueue {
 public:
  WorkQueue() = default;
  /// Also when the second queue of an environment could not have its thread.
  ~WorkQueue() { stop(true); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  void take_turns(std::shared_ptr<HeadTurns> turns) { turns_ = std::move(turns); }
  void set_threads(int count) {
    const MutexLock lock(mutex_);
    while (static_cast<int>(threads_.size()) < count) threads_.emplace_back([this] { serve(); });
  }
  [[nodiscard]] int threads() {
    const MutexLock lock(mutex_);
    return static_cast<int>(threads_.size());
  }
  void schedule(void (*work)(void*), void* argument, void* tag, void (*cancelled)(void*)) {
    {
      const MutexLock lock(mutex_);
      queue_.push_back({work, argument, tag, cancelled});
    }
    changed_.notify_one();
  }
  int unschedule(void* tag) {
    std::deque<Item> gone;
    {
      const MutexLock lock(mutex_);
      for (auto at = queue_.begin(); at != queue_.end();) {
        if (at->tag == tag) {
          gone.push_back(*at);
          at = queue_.erase(at);
        } else {
          ++at;
        }
      }
    }
    for (const Item& item : gone)
      if (item.cancelled != nullptr) item.cancelled(item.argument);
    return static_cast<int>(gone.size());
  }
  [[nodiscard]] unsigned length() {
    const MutexLock lock(mutex_);
    return static_cast<unsigned>(queue_.size());
  }
  void stop(bool wait) {
    std::vector<std::thread> ended;
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      ended.swap(threads_);
    }
    changed_.notify_all();
    for (std::thread& thread : ended) {
      if (!thread.joinable()) continue;
      if (wait) {
        thread.join();
      } else {
        thread.detach();
      }
    }
  }

 private:
  struct Item {
    void (*work)(void*);
    void* argument;
    void* tag;
    void (*cancelled)(void*);
  };
  void serve() {
    prctl(PR_SET_NAME, "index-bg");
    MutexLock lock(mutex_);
    while (true) {
      while (!stopping_ && queue_.empty()) changed_.wait(lock);
      if (queue_.empty()) return;
      const Item item = queue_.front();
      queue_.pop_front();
      lock.unlock();
      if (turns_) {
        turns_->run([&item] { item.work(item.argument); });
      } else {
        item.work(item.argument);
      }
      lock.lock();
    }
  }
  std::shared_ptr<HeadTurns> turns_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Item> queue_ TARN_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ TARN_GUARDED_BY(mutex_);
  bool stopping_ TARN_GUARDED_BY(mutex_) = false;
};

class DriveEnv final : public rocksdb::EnvWrapper {
 public:
  explicit DriveEnv(const std::shared_ptr<HeadTurns>& turns)
      : rocksdb::EnvWrapper(rocksdb::Env::Default()) {
    // The cache that all drives share remembers the clock of the first database that used it, also
    // when that one has been closed.
    system_clock_ = rocksdb::Env::Default()->GetSystemClock();
    for (WorkQueue& each : queues_) each.take_turns(turns);
    queue(Priority::LOW).set_threads(1);
    queue(Priority::HIGH).set_threads(1);
  }
  ~DriveEnv() override {
    for (WorkQueue& each : queues_) each.stop(true);
  }
  const char* Name() const override { return "TarnDriveEnv"; }
  void Schedule(void (*work)(void*), void* argument, Priority priority, void* tag,
                void (*cancelled)(void*)) override {
    WorkQueue& its = queue(priority);
    if (its.threads() == 0) its.set_threads(1);
    its.schedule(work, argument, tag, cancelled);
  }
  int UnSchedule(void* tag, Priority priority) override { return queue(priority).unschedule(tag); }
  unsigned int GetThreadPoolQueueLen(Priority priority) const override {
    return queue(priority).length();
  }
  void SetBackgroundThreads(int count, Priority priority) override {
    queue(priority).set_threads(count);
  }
  int GetBackgroundThreads(Priority priority) override { return queue(priority).threads(); }
  void IncBackgroundThreadsIfNeeded(int count, Priority priority) override {
    queue(priority).set_threads(count);
  }
  int ReserveThreads(int, Priority) override { return 0; }
  int ReleaseThreads(int, Priority) override { return 0; }

 private:
  WorkQueue& queue(Priority priority) const {
    return queues_[static_cast<std::size_t>(priority) % queues_.size()];
  }
  mutable std::array<WorkQueue, 4> queues_;
};

class SpdlogLogger final : public rocksdb::Logger {
 public:
  explicit SpdlogLogger(std::string drive)
      : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL), drive_(std::move(drive)) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 1024> line{};
    std::vsnprintf(line.data(), line.size(), format, arguments);
    std::string_view text(line.data());
    while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
    obs::log("index").warn("rocksdb drive={} text={}", drive_, text);
  }
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level >= rocksdb::InfoLogLevel::WARN_LEVEL && level != rocksdb::InfoLogLevel::HEADER_LEVEL)
      Logv(format, arguments);
  }

 private:
  std::string drive_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> make_index_env(const std::shared_ptr<HeadTurns>& turns) {
  return std::make_unique<DriveEnv>(turns);
}

std::shared_ptr<rocksdb::Logger> make_index_logger(const std::string& drive) {
  return std::make_shared<SpdlogLogger>(drive);
}

}  // namespace tarn::target
