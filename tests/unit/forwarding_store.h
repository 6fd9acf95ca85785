#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "common/cluster/store/meta_store.h"

namespace tarn::test {

/// A meta store that passes every call on to another one, which must outlive it. Tests override the
/// calls that shall fare otherwise.
class ForwardingStore : public cluster::MetaStore {
 public:
  explicit ForwardingStore(cluster::MetaStore& store) : store_(store) {}

  Task<Result<cluster::RangeResult>> range(cluster::RangeRequest request) override {
    co_return co_await store_.range(std::move(request));
  }
  Task<Result<cluster::TransactionResult>> commit(cluster::Transaction transaction) override {
    co_return co_await store_.commit(std::move(transaction));
  }
  Task<Result<cluster::LeaseId>> grant(std::chrono::seconds ttl) override {
    co_return co_await store_.grant(ttl);
  }
  Task<Result<std::chrono::seconds>> keep_alive(cluster::LeaseId lease) override {
    co_return co_await store_.keep_alive(lease);
  }
  Task<Status> revoke(cluster::LeaseId lease) override { co_return co_await store_.revoke(lease); }
  Task<Result<cluster::LeaseState>> time_to_live(cluster::LeaseId lease) override {
    co_return co_await store_.time_to_live(lease);
  }
  Task<Status> watch(std::string prefix, cluster::Revision from,
                     std::function<bool(cluster::WatchBatch)> sink) override {
    co_return co_await store_.watch(std::move(prefix), from, std::move(sink));
  }

 private:
  cluster::MetaStore& store_;
};

}  // namespace tarn::test
