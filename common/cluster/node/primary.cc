#include "common/cluster/node/primary.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/event.h"
#include "common/base/resume.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/attempts.h"
#include "common/cluster/store/keys.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

constexpr std::chrono::milliseconds kPrimaryLookEvery{500};

/// The map with `id` as primary, one version higher; none if it has it, or does not know `id`.
Result<std::optional<Smap>> map_with_primary(const KeyValue& item, const std::string& id) {
  TRY(Smap map, decode_map(item.value));
  if (map.primary == id || map.find(id) == nullptr) return std::optional<Smap>();
  map.primary = id;
  ++map.version;
  return std::optional(std::move(map));
}

/// Writes in one transaction the key, if it is not held, and our name in the map.
Task<Status> primary_take(MetaStore& store, std::string id, LeaseId lease, bool held) {
  RangeRequest map_key{std::string(keys::kMap), "", 0};
  CO_TRY(const auto found, co_await store.range(std::move(map_key)));
  if (found.items.empty()) co_return fail(Errc::not_found, "there is no cluster map");
  CO_TRY(const auto map, map_with_primary(found.items.front(), id));
  Transaction transaction;
  transaction.compare.push_back(
      {std::string(keys::kMap), Compare::What::mod_revision, found.items.front().mod_revision});
  if (!held) {
    transaction.compare.push_back({std::string(keys::kPrimary), Compare::What::create_revision, 0});
    transaction.puts.push_back({std::string(keys::kPrimary), id, lease});
  }
  if (map) {
    transaction.puts.push_back({std::string(keys::kMap), nlohmann::json(*map).dump(), 0});
    transaction.puts.push_back({std::string(keys::kMapVersion), std::to_string(map->version), 0});
  }
  if (transaction.puts.empty()) co_return Status();
  CO_TRY(const auto done, co_await store.commit(std::move(transaction)));
  if (done.succeeded && !held) obs::log("cluster").info("primary node={} lease={}", id, lease);
  co_return Status();
}

/// The transaction that makes `id` primary, if all is as it was when it was read.
Task<Result<Transaction>> passing_to(MetaStore& store, std::string id) {
  CO_TRY(const auto map_item, co_await read_key(store, std::string(keys::kMap)));
  if (!map_item) co_return fail(Errc::not_found, "there is no cluster map");
  CO_TRY(const auto live, co_await read_key(store, keys::live(id)));
  if (!live) co_return fail(Errc::unavailable, "proxy {} is not up", id);
  CO_TRY(const auto holder, co_await read_key(store, std::string(keys::kPrimary)));
  CO_TRY(const auto map, map_with_primary(*map_item, id));
  Transaction out;
  const Revision held_since = holder ? holder->mod_revision : 0;
  out.compare.push_back(
      {std::string(keys::kMap), Compare::What::mod_revision, map_item->mod_revision});
  out.compare.push_back({std::string(keys::kPrimary), Compare::What::mod_revision, held_since});
  out.compare.push_back({keys::live(id), Compare::What::create_revision, live->create_revision});
  out.puts.push_back({std::string(keys::kPrimary), id, live->lease});
  if (map) {
    out.puts.push_back({std::string(keys::kMap), nlohmann::json(*map).dump(), 0});
    out.puts.push_back({std::string(keys::kMapVersion), std::to_string(map->version), 0});
  }
  co_return out;
}

bool is_put_aside(const ClusterState& state, const std::string& id) {
  const Node* node = state.map.find(id);
  return node != nullptr && (node->flags & (kMaintenance | kDecommission)) != 0;
}

}  // namespace

Task<Status> set_primary(MetaStore& store, ClusterView& view, std::string id) {
  for (Attempts attempts; co_await attempts.next();) {
    CO_TRY(const auto state, co_await view.fresh());
    if (state->map.primary == id) co_return Status();
    if (is_put_aside(*state, id))
      co_return fail(Errc::invalid_argument,
                     "proxy {} is in maintenance or leaves: it cannot be the primary", id);
    CO_TRY(Transaction transaction, co_await passing_to(store, id));
    CO_TRY(const auto done, co_await store.commit(std::move(transaction)));
    if (done.succeeded) {
      obs::log("cluster").info("primary set node={}", id);
      CO_TRY_OK(co_await view.fresh());
      co_return Status();
    }
  }
  co_return fail(Errc::unavailable, "the cluster map is being changed by others all the time");
}

/// Lost races and failures need no message: the next look sees the present state.
Task<void> keep_primary(MetaStore& store, ClusterView& view, const Membership& membership) {
  co_await asio::this_coro::throw_if_cancelled(false);
  EventListener changes(view.changed(), co_await asio::this_coro::executor);
  const std::string id = membership.self().id;
  while (!co_await is_cancelled()) {
    const auto state = view.state();
    const bool held = state->primary == id;
    const bool wanted =
        (state->primary.empty() && !is_put_aside(*state, id)) || (held && state->map.primary != id);
    const LeaseId lease = membership.lease_id();
    if (wanted && lease != 0 && membership.lease().valid())
      (void)co_await primary_take(store, id, lease, held);
    co_await changes.wait_until(next_tick(kPrimaryLookEvery));
  }
}

}  // namespace tarn::cluster
