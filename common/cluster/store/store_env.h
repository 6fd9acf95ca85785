#pragma once

#include <memory>

#include <rocksdb/env.h>
#include <rocksdb/threadpool.h>

namespace tarn::cluster {

/// RocksDB's system environment with a background thread of its own: the threads of the default one
/// are shared by the whole process, and a drive that hangs would keep them all.
class StoreEnv final : public rocksdb::EnvWrapper {
 public:
  StoreEnv() : rocksdb::EnvWrapper(rocksdb::Env::Default()), pool_(rocksdb::NewThreadPool(1)) {}
  ~StoreEnv() override { pool_->JoinAllThreads(); }

  void Schedule(void (*function)(void*), void* argument, Priority, void* /*tag*/,
                void (*)(void*)) override {
    pool_->SubmitJob([function, argument] { function(argument); });
  }
  /// Leaves all scheduled work: RocksDB waits for it, and it ends at once on shutdown.
  int UnSchedule(void* /*tag*/, Priority) override { return 0; }
  [[nodiscard]] unsigned int GetThreadPoolQueueLen(Priority) const override {
    return pool_->GetQueueLen();
  }
  void SetBackgroundThreads(int, Priority) override {}
  int GetBackgroundThreads(Priority) override { return 1; }
  void IncBackgroundThreadsIfNeeded(int, Priority) override {}
  int ReserveThreads(int, Priority) override { return 0; }
  int ReleaseThreads(int, Priority) override { return 0; }

 private:
  std::unique_ptr<rocksdb::ThreadPool> pool_;
};

}  // namespace tarn::cluster
