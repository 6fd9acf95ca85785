#include "common/cluster/state/metadata_move.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/gather.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/cluster/state/cluster_end.h"
#include "common/cluster/state/cluster_file.h"
#include "common/cluster/state/config_change.h"
#include "common/cluster/store/embedded_store.h"
#include "common/cluster/store/keys.h"
#include "tests/unit/forwarding_store.h"
#include "tests/unit/run_task.h"

namespace tarn::cluster {
namespace metadata_move_test {

using test::TaskRunner;
using test::TemporaryDirectory;

/// A store whose connection is cut after a number of commits. The next commit is lost on its way
/// there, or its answer on the way back.
class Cut final : public test::ForwardingStore {
 public:
  enum class How : std::uint8_t { before, after };
  using ForwardingStore::ForwardingStore;
  int left = 1'000;
  How how = How::before;

  Task<Result<TransactionResult>> commit(Transaction transaction) override {
    const bool cut = left-- <= 0;
    if (cut && how == How::before) co_return fail(Errc::unavailable, "lost on the way");
    auto done = co_await ForwardingStore::commit(std::move(transaction));
    if (cut) co_return fail(Errc::unavailable, "answer lost on the way");
    co_return done;
  }
};

Node node(const std::string& id, Role role) {
  Node out;
  out.id = id;
  out.role = role;
  out.public_url = "http://127.0.0.1:8080";
  out.internal_url = "http://127.0.0.1:8180";
  return out;
}

/// A store that a running node tries to join after each commit.
class Besieged final : public test::ForwardingStore {
 public:
  static constexpr std::chrono::milliseconds kTry{50};
  explicit Besieged(MetaStore& store) : ForwardingStore(store), inner_(store) {}
  int joined = 0;
  int refused = 0;

  Task<Result<TransactionResult>> commit(Transaction transaction) override {
    auto done = co_await ForwardingStore::commit(std::move(transaction));
    ClusterView view(inner_, clock_);
    Membership member(inner_, view, node("p9", Role::proxy), clock_);
    asio::steady_timer timer(co_await asio::this_coro::executor, kTry);
    const auto first = co_await first_of(member.join(), timer.async_wait(asio::use_awaitable));
    ++(first.index() == 0 ? joined : refused);
    co_return done;
  }

 private:
  MetaStore& inner_;
  SystemClock clock_;
};

api::Bucket bucket(const std::string& name) {
  api::Bucket out;
  out.name = name;
  return out;
}

struct Place {
  TemporaryDirectory directory;
  SystemClock clock;
  TaskRunner run;
  std::unique_ptr<EmbeddedStore> store = EmbeddedStore::open(directory.path(), clock).value();

  Result<std::shared_ptr<const ClusterState>> state() {
    ClusterView view(*store, clock);
    const Status loaded = run(view.load());
    if (!loaded) return fail(loaded.error());
    return view.state();
  }
};

/// A cluster with a target, 125 buckets beside the first and a destroyed one: more than a
/// transaction takes.
void fill(Place& place) {
  REQUIRE(place.run(bootstrap(*place.store, "data", place.clock)));
  ClusterView view(*place.store, place.clock);
  for (int i = 0; i < 125; ++i)
    REQUIRE(place.run(
        create_bucket(*place.store, view, bucket("b" + std::to_string(i)), {}, place.clock)));
  REQUIRE(place.run(destroy_bucket(*place.store, view, bucket("b7"), std::chrono::seconds(1))));
  // Only now: nothing follows the store for them, so they would not acknowledge that.
  Membership target(*place.store, view, node("t1", Role::target), place.clock);
  Membership proxy(*place.store, view, node("p1", Role::proxy), place.clock);
  REQUIRE(place.run(target.join()));
  REQUIRE(place.run(proxy.join()));
  const ConfigEdit edit = [](const ConfigValues& before) {
    return with_config(before, {{"space.highwm", "80"}});
  };
  REQUIRE(place.run(change_config(*place.store, view, edit, place.clock)));
}

/// The incarnation that a node gets which starts now.
std::uint64_t incarnation(Place& place) {
  ClusterView view(*place.store, place.clock);
  Membership member(*place.store, view, node("t1", Role::target), place.clock);
  REQUIRE(place.run(member.join()));
  return member.incarnation();
}

bool same_buckets(const Bmd& a, const Bmd& b) {
  return aistore_json(a) == aistore_json(b) && a.dead == b.dead;
}

TEST_CASE("A moved cluster has all its buckets, and revisions go on", "[cluster][move]") {
  Place old;
  Place fresh;
  fill(old);
  const auto last = incarnation(old);
  const auto before = old.state().value();
  const auto moved =
      old.run(move_metadata(*old.store, *fresh.store, "http://etcd:2379", "print")).value();
  CHECK(moved.uuid == before->uuid);
  CHECK(moved.buckets == 125);
  const auto after = fresh.state().value();
  CHECK(same_buckets(after->bmd, before->bmd));
  CHECK(after->map.version == before->map.version);
  CHECK(after->map.nodes.size() == 2);
  CHECK(after->config == before->config);
  CHECK(after->config.values.at("space.highwm") == "\"80\"");
  CHECK(after->live.empty());
  CHECK(after->revision > before->revision);
  CHECK(incarnation(fresh) > last);
  // No proxy begins with the old store again, and a second call finds nothing left to do.
  CHECK(old.run(bootstrap(*old.store, "data", old.clock)).error().code == Errc::unsupported);
  CHECK(old.run(move_metadata(*old.store, *fresh.store, "http://etcd:2379", "print")));
  Place third;
  CHECK(
      old.run(move_metadata(*old.store, *third.store, "http://else:2379", "print")).error().code ==
      Errc::conflict);
}

TEST_CASE("A move that is cut off anywhere is in one place at most, and can be finished",
          "[cluster][move]") {
  for (const auto how : {Cut::How::before, Cut::How::after}) {
    Place old;
    fill(old);
    const auto before = old.state().value();
    Place fresh;
    Cut cut(*fresh.store);
    cut.how = how;
    int attempts = 0;
    for (bool done = false; !done; ++attempts) {
      REQUIRE(attempts < 50);
      cut.left = attempts;
      done = old.run(move_metadata(*old.store, cut, "http://etcd:2379", "print")).has_value();
      const bool is_left = !old.state().value()->moved_to.empty();
      const bool is_here = fresh.state().has_value();
      CHECK_FALSE((is_here && !is_left));
      CHECK((!done || is_here));
      if (!done && !is_here) {  // no proxy makes a cluster of its own here meanwhile
        const auto all = fresh.run(fresh.store->range({std::string(keys::kMoving), "", 0}));
        CHECK((all->items.empty() || !fresh.run(bootstrap(*fresh.store, "data", fresh.clock))));
      }
    }
    CHECK(attempts > 4);
    CHECK(same_buckets(fresh.state().value()->bmd, before->bmd));
    CHECK(fresh.state().value()->revision > before->revision);
  }
}

TEST_CASE("A node that runs joins a moved cluster when all of it is there", "[cluster][move]") {
  Place old;
  fill(old);
  Place fresh;
  Besieged besieged(*fresh.store);
  REQUIRE(old.run(move_metadata(*old.store, besieged, "http://etcd:2379", "print")));
  CHECK(besieged.refused > 2);
  CHECK(besieged.joined <= 1);  // when all was there

  Place anew;
  Besieged again(*anew.store);
  REQUIRE(old.run(restore_metadata(recovered(*old.state().value()), again, "print")));
  CHECK(again.joined <= 1);
}

TEST_CASE("A store with a cluster is not overwritten", "[cluster][move]") {
  Place old;
  Place taken;
  fill(old);
  REQUIRE(taken.run(bootstrap(*taken.store, "data", taken.clock)));
  const auto moved = old.run(move_metadata(*old.store, *taken.store, "http://etcd:2379", "print"));
  CHECK(moved.error().code == Errc::conflict);
  CHECK(old.state().value()->moved_to.empty());
  CHECK(old.run(restore_metadata(recovered(*old.state().value()), *taken.store, "print"))
            .error()
            .code == Errc::conflict);
}

TEST_CASE("A cluster is made anew from what drives have seen", "[cluster][move]") {
  Place old;
  fill(old);
  const auto last = incarnation(old);
  const auto before = old.state().value();
  ClusterState early = *before;  // of a drive that was away
  early.bmd.buckets.erase(bucket("b9"));
  --early.bmd.version;
  std::vector<ClusterState> seen;
  for (const ClusterState& each : {early, *before, early})
    seen.push_back(decode_cluster_file(encode_cluster_file(each)).value());
  const auto newest = newest_of(seen).value();
  CHECK(same_buckets(newest.bmd, before->bmd));

  Place fresh;
  const auto state = recovered(newest);
  REQUIRE(fresh.run(restore_metadata(state, *fresh.store, "print")));
  const auto after = fresh.state().value();
  CHECK(after->uuid == before->uuid);
  // Nodes that still run by the old map have to hear of the new one before any target owns more
  // names.
  CHECK(after->ownership->settled == 0);
  CHECK(after->map.version == kVersionJump);
  CHECK(after->bmd.version == kVersionJump);
  CHECK(after->bmd.buckets.size() == before->bmd.buckets.size());
  CHECK(after->bmd.dead == before->bmd.dead);
  CHECK(after->config.values == before->config.values);
  CHECK(after->config.version == kVersionJump);
  CHECK(after->map.find("t1") != nullptr);
  CHECK(after->map.find("p1") == nullptr);
  CHECK(incarnation(fresh) > last);
  // Lost again: it jumps again.
  CHECK(recovered(*after).map.version == 2 * kVersionJump);
  CHECK(recovered(*after).revision_base > after->revision);

  // A cluster that was ended lives again; a node that was in maintenance stays in it.
  ClusterState ended = *after;
  ended.map.nodes.at("t1").flags = std::uint64_t{kMaintenance} | std::uint64_t{kEnds};
  CHECK(recovered(ended).map.nodes.at("t1").flags == kMaintenance);

  seen.front().uuid = "another";
  CHECK(newest_of(seen).error().code == Errc::conflict);
  CHECK(newest_of({}).error().code == Errc::invalid_argument);
  CHECK(decode_cluster_file("{}").error().code == Errc::corrupt);
}

TEST_CASE("A node does not follow a store that has less than before, or another cluster",
          "[cluster][move]") {
  /// A store that is replaced by another one under the feet of a node.
  class Swapped final : public MetaStore {
   public:
    explicit Swapped(MetaStore& store) : now(&store) {}
    MetaStore* now;
    Task<Result<RangeResult>> range(RangeRequest request) override {
      co_return co_await now->range(std::move(request));
    }
    Task<Result<TransactionResult>> commit(Transaction transaction) override {
      co_return co_await now->commit(std::move(transaction));
    }
    Task<Result<LeaseId>> grant(std::chrono::seconds ttl) override {
      co_return co_await now->grant(ttl);
    }
    Task<Result<std::chrono::seconds>> keep_alive(LeaseId lease) override {
      co_return co_await now->keep_alive(lease);
    }
    Task<Status> revoke(LeaseId lease) override { co_return co_await now->revoke(lease); }
    Task<Result<LeaseState>> time_to_live(LeaseId lease) override {
      co_return co_await now->time_to_live(lease);
    }
    Task<Status> watch(std::string prefix, Revision from,
                       std::function<bool(WatchBatch)> sink) override {
      co_return co_await now->watch(std::move(prefix), from, std::move(sink));
    }
  };
  Place old;
  fill(old);
  Swapped store(*old.store);
  ClusterView view(store, old.clock);
  REQUIRE(old.run(view.load()));
  const auto known = view.state();
  const BootTime contact = view.last_contact();

  Place empty;
  store.now = empty.store.get();
  CHECK_FALSE(old.run(view.load()));
  Place foreign;  // with more changes than ours: its revision says nothing
  fill(foreign);
  incarnation(foreign);
  ClusterView other(*foreign.store, foreign.clock);
  for (int i = 0; i < 5; ++i)
    REQUIRE(foreign.run(create_bucket(*foreign.store, other, bucket("more" + std::to_string(i)), {},
                                      foreign.clock)));
  store.now = foreign.store.get();
  CHECK(old.run(view.load()).error().code == Errc::unavailable);
  CHECK(view.state() == known);
  CHECK(view.last_contact() == contact);

  Place again;
  const auto state = recovered(*known);
  REQUIRE(again.run(restore_metadata(state, *again.store, "print")));
  store.now = again.store.get();
  REQUIRE(old.run(view.load()));
  CHECK(view.state()->uuid == known->uuid);
  CHECK(view.state()->revision > known->revision);
}

}  // namespace metadata_move_test
}  // namespace tarn::cluster
