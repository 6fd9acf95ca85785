#include "common/cluster/state/metadata_move.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/cluster/state/bucket_changes.h"
#include "common/cluster/state/cluster_end.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/keys.h"

namespace tarn::cluster {
namespace {

// etcd takes 128 operations and 1.5 MB a transaction.
constexpr std::size_t kBatchPuts = 100;
constexpr std::size_t kBatchBytes = 1U << 20U;

using Items = std::map<std::string, std::string>;

Task<Result<RangeResult>> read_all(MetaStore& store) {
  RangeRequest all{std::string(keys::kFirst), prefix_end(std::string(keys::kAll)), 0};
  co_return co_await store.range(std::move(all));
}

std::string value_of(const RangeResult& all, std::string_view key) {
  for (const KeyValue& item : all.items)
    if (item.key == key) return item.value;
  return "";
}

/// A transaction that must hold. `problem` explains a failure.
Task<Result<Revision>> must_commit(MetaStore& store, Transaction transaction,
                                   std::string_view problem) {
  CO_TRY(const auto done, co_await store.commit(std::move(transaction)));
  if (!done.succeeded) co_return fail(Errc::conflict, "{}", problem);
  co_return done.revision;
}

constexpr std::string_view kInUse =
    "another process writes to the new meta store: stop the proxies that use it, and "
    "begin again";

/// An empty place for the cluster `uuid`; keys of an earlier attempt are removed. Returns the
/// revision of the note that keeps new clusters out.
Task<Result<Revision>> prepare(MetaStore& to, std::string uuid) {
  CO_TRY(const auto there, co_await read_all(to));
  if (const auto other = value_of(there, keys::kCluster); !other.empty())
    co_return fail(Errc::conflict, "the new meta store has a cluster already ({})", other);
  if (!there.items.empty() && value_of(there, keys::kMoving) != uuid)
    co_return fail(Errc::conflict, "the new meta store holds something else below {}", keys::kAll);
  if (!there.items.empty()) {
    Transaction clear;
    clear.compare.push_back({std::string(keys::kCluster), Compare::What::create_revision, 0});
    clear.deletes.push_back({std::string(keys::kFirst), prefix_end(std::string(keys::kAll))});
    CO_TRY_OK(co_await must_commit(to, std::move(clear), kInUse));
  }
  Transaction note;
  note.compare.push_back({std::string(keys::kCluster), Compare::What::create_revision, 0});
  note.compare.push_back({std::string(keys::kMoving), Compare::What::create_revision, 0});
  note.puts.push_back({std::string(keys::kMoving), uuid, 0});
  co_return co_await must_commit(to, std::move(note), kInUse);
}

/// Writes `items` in batches and reads them again.
Task<Status> copy(const Items& items, MetaStore& to, Revision note) {
  const Compare guard{std::string(keys::kMoving), Compare::What::mod_revision, note};
  Transaction batch{{guard}, {}, {}};
  std::size_t bytes = 0;
  for (const auto& [key, value] : items) {
    if (batch.puts.size() == kBatchPuts || (bytes > 0 && bytes + value.size() > kBatchBytes)) {
      CO_TRY_OK(co_await must_commit(to, std::exchange(batch, {{guard}, {}, {}}), kInUse));
      bytes = 0;
    }
    batch.puts.push_back({key, value, 0});
    bytes += key.size() + value.size();
  }
  CO_TRY_OK(co_await must_commit(to, std::move(batch), kInUse));
  CO_TRY(const auto written, co_await read_all(to));
  Items read;
  for (const KeyValue& item : written.items)
    if (item.key != keys::kMoving) read[item.key] = item.value;
  if (read != items)
    co_return fail(Errc::corrupt, "the new meta store does not hold what was written into it");
  co_return Status();
}

/// From here on the new store has a cluster.
Task<Status> finish(MetaStore& to, Revision note, const Moved& moved, std::string secret_check) {
  Transaction end;
  end.compare.push_back({std::string(keys::kMoving), Compare::What::mod_revision, note});
  end.deletes.push_back({std::string(keys::kMoving), ""});
  end.puts.push_back({std::string(keys::kCluster), moved.uuid, 0});
  end.puts.push_back({std::string(keys::kRevisionBase), std::to_string(moved.base), 0});
  end.puts.push_back({std::string(keys::kSecretCheck), std::move(secret_check), 0});
  CO_TRY_OK(co_await must_commit(to, std::move(end), kInUse));
  co_return Status();
}

/// Items that move: not those that end with a node's lease, nor those that belong to the store
/// itself.
Items movable(const RangeResult& all) {
  Items out;
  for (const KeyValue& item : all.items) {
    const bool own = item.key == keys::kCluster || item.key == keys::kRevisionBase ||
                     item.key == keys::kSecretCheck || item.key == keys::kMovedTo;
    if (item.lease == 0 && !own) out[item.key] = item.value;
  }
  return out;
}

std::size_t count_buckets(const Items& items) {
  return static_cast<std::size_t>(std::count_if(items.begin(), items.end(), [](const auto& item) {
    return item.first.starts_with(keys::kBuckets);
  }));
}

Task<Status> leave_store(MetaStore& from, std::string where) {
  Transaction leave;
  leave.puts.push_back({std::string(keys::kMovedTo), std::move(where), 0});
  CO_TRY_OK(co_await must_commit(from, std::move(leave), "the old meta store takes no note"));
  co_return Status();
}

std::uint64_t jump(std::uint64_t version) { return (version / kVersionJump + 1) * kVersionJump; }

}  // namespace

Task<Result<Moved>> move_metadata(MetaStore& from, MetaStore& to, std::string where,
                                  std::string secret_check) {
  CO_TRY(const auto all, co_await read_all(from));
  StateBuilder builder;
  builder.reset(all);
  CO_TRY(const auto state, builder.build());
  if (!state->moved_to.empty() && state->moved_to != where)
    co_return fail(Errc::conflict, "the state of this cluster was moved to {} already",
                   state->moved_to);
  const Items items = movable(all);
  const Moved moved{state->uuid, items.size(), count_buckets(items), state->revision};
  if (!state->moved_to.empty()) {  // interrupted after its last step: all work is done
    CO_TRY(const auto there, co_await read_all(to));
    if (value_of(there, keys::kCluster) == moved.uuid) co_return moved;
  }
  CO_TRY(const Revision note, co_await prepare(to, moved.uuid));
  CO_TRY_OK(co_await copy(items, to, note));
  // The old store first: between the two steps the cluster is nowhere, never in two places.
  CO_TRY_OK(co_await leave_store(from, where));
  CO_TRY_OK(co_await finish(to, note, moved, std::move(secret_check)));
  co_return moved;
}

Result<ClusterState> newest_of(const std::vector<ClusterState>& seen) {
  if (seen.empty()) return fail(Errc::invalid_argument, "no drive was given");
  const auto newer = [](const ClusterState& a, const ClusterState& b) {
    return std::pair(a.bmd.version, a.map.version) < std::pair(b.bmd.version, b.map.version);
  };
  ClusterState out = *std::max_element(seen.begin(), seen.end(), newer);
  for (const ClusterState& each : seen) {
    if (each.uuid != out.uuid)
      return fail(Errc::conflict, "the drives are of different clusters: {} and {}", out.uuid,
                  each.uuid);
    out.revision = std::max(out.revision, each.revision);
    out.bmd.dead.insert(each.bmd.dead.begin(), each.bmd.dead.end());
    if (each.config.version > out.config.version) out.config = each.config;
  }
  return out;
}

ClusterState recovered(ClusterState seen) {
  std::erase_if(seen.map.nodes, [](const auto& entry) { return entry.second.role == Role::proxy; });
  // A cluster that was ended lives once it is recovered; else its nodes would end again.
  for (auto& [id, node] : seen.map.nodes) node.flags &= ~std::uint64_t{kEnds | kEndsErased};
  seen.map.primary.clear();
  seen.map.version = jump(seen.map.version);
  seen.bmd.version = jump(seen.bmd.version);
  if (seen.config.version > 0) seen.config.version = jump(seen.config.version);
  seen.revision_base = seen.revision + kRevisionJump;
  return seen;
}

Task<Result<Moved>> restore_metadata(ClusterState state, MetaStore& to, std::string secret_check) {
  Transaction all;
  for (const auto& [name, bucket] : state.bmd.buckets) put_bucket(bucket, "recover", all);
  Items items;
  for (Put& put : all.puts) items[put.key] = std::move(put.value);
  const std::string bmd_version = std::to_string(state.bmd.version);
  for (const BucketId bucket : state.bmd.dead) items[keys::dead_bucket(bucket)] = bmd_version;
  items[std::string(keys::kSchema)] = schema_of(state.map);
  items[std::string(keys::kMap)] = nlohmann::json(state.map).dump();
  items[std::string(keys::kMapVersion)] = std::to_string(state.map.version);
  items[std::string(keys::kBmdVersion)] = bmd_version;
  if (state.config.version > 0) {
    items[std::string(keys::kConfig)] = nlohmann::json(state.config).dump();
    items[std::string(keys::kConfigVersion)] = std::to_string(state.config.version);
  }
  const Moved moved{state.uuid, items.size(), state.bmd.buckets.size(), state.revision_base};
  CO_TRY(const Revision note, co_await prepare(to, moved.uuid));
  CO_TRY_OK(co_await copy(items, to, note));
  CO_TRY_OK(co_await finish(to, note, moved, std::move(secret_check)));
  co_return moved;
}

}  // namespace tarn::cluster
