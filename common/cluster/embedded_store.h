#pragma once

#include <filesystem>
#include <memory>

#include "common/base/clock.h"
#include "common/cluster/meta_store.h"

namespace tarn::cluster {

/// The meta store of a single machine: RocksDB inside the one proxy. Every commit is synced before it
/// is answered. RocksDB and fsync run on a thread of the store's own, never on the caller's loop.
/// Leases live in memory and are granted one full new term when the store opens; expired ones delete
/// their keys. The last 10,000 changes are kept for watches.
class EmbeddedStore final : public MetaStore {
 public:
  /// Opens or makes the store in `directory`. conflict when another process has it open (exactly one
  /// proxy runs with the embedded store); corrupt when it cannot be read.
  [[nodiscard]] static Result<std::unique_ptr<EmbeddedStore>> open(
      const std::filesystem::path& directory, Clock& clock);
  ~EmbeddedStore() override;

  Task<Result<RangeResult>> range(RangeRequest request) override;
  Task<Result<TransactionResult>> commit(Transaction transaction) override;
  Task<Result<LeaseId>> grant(std::chrono::seconds ttl) override;
  Task<Result<std::chrono::seconds>> keep_alive(LeaseId lease) override;
  Task<Status> revoke(LeaseId lease) override;
  Task<Status> watch(std::string prefix, Revision from,
                     std::function<bool(WatchBatch)> sink) override;

 private:
  struct Impl;
  explicit EmbeddedStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarn::cluster
