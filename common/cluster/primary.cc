#include "common/cluster/primary.h"

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "common/base/resume.h"
#include "common/cluster/keys.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

constexpr std::chrono::milliseconds kLookEvery{200};

/// The map with `id` as primary, one version higher; nothing when it has it, or cannot be read.
Result<std::optional<Smap>> map_with_primary(const KeyValue& item, const std::string& id) {
  try {
    auto map = nlohmann::json::parse(item.value).get<Smap>();
    if (map.primary == id || map.find(id) == nullptr) return std::optional<Smap>();
    map.primary = id;
    ++map.version;
    return std::optional(std::move(map));
  } catch (const std::exception& problem) {
    return fail(Errc::corrupt, "the cluster map in the meta store: {}", problem.what());
  }
}

/// One transaction: the key, if nobody holds it, and our name in the map.
Task<Status> take(MetaStore& store, std::string id, LeaseId lease, bool held) {
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

}  // namespace

/// Lost races and failures need no word: the next look sees what is so.
Task<void> keep_primary(MetaStore& store, ClusterView& view, const Membership& membership) {
  co_await asio::this_coro::throw_if_cancelled(false);
  asio::steady_timer timer(co_await asio::this_coro::executor);
  const std::string id = membership.self().id;
  while (!co_await is_cancelled()) {
    const auto state = view.state();
    const bool held = state->primary == id;
    const bool wanted = state->primary.empty() || (held && state->map.primary != id);
    const LeaseId lease = membership.lease_id();
    if (wanted && lease != 0 && membership.lease().valid())
      (void)co_await take(store, id, lease, held);
    timer.expires_after(kLookEvery);
    (void)co_await timer.async_wait(kTuple);
  }
}

}  // namespace tarn::cluster
