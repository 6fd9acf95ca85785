#pragma once

#include <filesystem>
#include <memory>

#include "common/base/clock.h"
#include "common/cluster/store/meta_store.h"

namespace tarn::cluster {

/// The meta store of a single machine: RocksDB inside the one proxy. Every commit is synced before
/// it is answered. RocksDB and fsync run on a thread of the store's own, never on the caller's
/// loop; reads and renewals of leases are answered from memory. Leases are granted one full new
/// term when the store opens; expired ones delete their keys. The last 10,000 changes are kept for
/// watches.
///
/// After a failed write (a full or failing drive) changes are refused as unavailable until the
/// database could be opened anew. Opening is tried once a second; only when it succeeds is the
/// outcome of that write known. Watches end with unavailable when the store is destroyed; no other
/// call may be under way then.
class EmbeddedStore final : public MetaStore {
 public:
  /// Opens or makes the store in `directory`. conflict when another process has it open (exactly
  /// one proxy runs with the embedded store); corrupt when it cannot be read or has lost
  /// acknowledged changes: then no file was changed. Blocks.
  [[nodiscard]] static Result<std::unique_ptr<EmbeddedStore>> open(
      const std::filesystem::path& directory, Clock& clock);
  ~EmbeddedStore() override;

  /// Ends all watches with unavailable, also those of other nodes, which would otherwise hold up
  /// the graceful stop of the listener that serves them. All else goes on. Thread-safe.
  void end_watches();

  Task<Result<RangeResult>> range(RangeRequest request) override;
  Task<Result<TransactionResult>> commit(Transaction transaction) override;
  Task<Result<LeaseId>> grant(std::chrono::seconds ttl) override;
  Task<Result<std::chrono::seconds>> keep_alive(LeaseId lease) override;
  Task<Status> revoke(LeaseId lease) override;
  Task<Result<LeaseState>> time_to_live(LeaseId lease) override;
  Task<Status> watch(std::string prefix, Revision from,
                     std::function<bool(WatchBatch)> sink) override;

 private:
  struct Core;
  struct Impl;
  template <class T, class Work>
  Task<Result<T>> on_thread(Work work);
  explicit EmbeddedStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarn::cluster
