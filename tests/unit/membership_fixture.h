#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/base/pause.h"
#include "common/cluster/node/coordination.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/cluster/store/embedded_store.h"
#include "common/cluster/store/keys.h"
#include "tests/unit/forwarding_store.h"
#include "tests/unit/run_task.h"

namespace tarn::cluster::testing {
/// The store, seen through a network that can lose calls, or the answers to those that change
/// things.
class Flaky final : public test::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::atomic<int> lost_answers{0};  ///< of this many commits the outcome stays unknown
  std::atomic<bool> away{false};
  std::atomic<std::chrono::milliseconds> slow{};  ///< how long each answer is under way

  Task<Result<RangeResult>> range(RangeRequest request) override {
    if (away) co_return gone();
    auto found = co_await ForwardingStore::range(std::move(request));
    co_await delay();
    co_return found;
  }
  Task<Result<TransactionResult>> commit(Transaction transaction) override {
    if (away) co_return gone();
    auto done = co_await ForwardingStore::commit(std::move(transaction));
    co_await delay();
    if (lost_answers-- > 0) co_return gone();
    lost_answers = 0;
    co_return done;
  }
  Task<Result<LeaseId>> grant(std::chrono::seconds ttl) override {
    if (away) co_return gone();
    auto granted = co_await ForwardingStore::grant(ttl);
    co_await delay();
    co_return granted;
  }
  Task<Result<std::chrono::seconds>> keep_alive(LeaseId lease) override {
    if (away) co_return gone();
    auto kept = co_await ForwardingStore::keep_alive(lease);
    co_await delay();
    co_return kept;
  }

 private:
  Task<void> delay() { co_await pause(slow.load()); }
  static tl::unexpected<Error> gone() { return fail(Errc::unavailable, "lost on the way"); }
};

inline Node node(const std::string& id, Role role) {
  Node out;
  out.id = id;
  out.role = role;
  out.public_url = "http://127.0.0.1:8080";
  out.internal_url = "http://127.0.0.1:8180";
  return out;
}

inline api::Bucket bucket(const std::string& name) {
  api::Bucket out;
  out.name = name;
  return out;
}

/// A meta store in a directory of its own, and a view of it through a network that can fail.
struct Cluster {
  Cluster()
      : store(EmbeddedStore::open(directory.path(), clock).value()),
        flaky(*store),
        view(flaky, clock) {}

  Result<BucketRecord> create(const std::string& name) {
    return run(create_bucket(flaky, view, bucket(name), {}, clock));
  }
  Status destroy(const std::string& name) {
    return run(destroy_bucket(flaky, view, bucket(name), std::chrono::seconds(1)));
  }
  std::vector<KeyValue> live() {
    RangeRequest request{std::string(keys::kLive), prefix_end(std::string(keys::kLive)), 0};
    return run(store->range(request))->items;
  }

  test::TemporaryDirectory directory;
  test::TaskRunner run;
  SystemClock clock;
  std::unique_ptr<EmbeddedStore> store;
  Flaky flaky;
  ClusterView view;
};

/// A node of the cluster with its background work, which ends with it.
struct Member {
  Member(Cluster& c, const std::string& id, Role role)
      : cluster(c), view(c.flaky, c.clock), membership(c.flaky, view, node(id, role), c.clock) {}
  void start() {
    REQUIRE(cluster.run(membership.join()));
    tasks.spawn(cluster.run.executor(), "view", view.follow());
    tasks.spawn(cluster.run.executor(), "lease", membership.keep());
  }
  ~Member() { CHECK(tasks.close(60)); }

  Cluster& cluster;
  ClusterView view;
  Membership membership;
  Absences absences;
  http::TaskGroup tasks;
};

}  // namespace tarn::cluster::testing
