#include "common/cluster/state/cluster_end.h"

#include <algorithm>
#include <utility>

#include "common/cluster/store/keys.h"

namespace tarn::cluster {
namespace {

bool ends(const Node& node) { return (node.flags & kEnds) != 0; }

std::uint64_t flags_of_end(bool erase) { return kEnds | (erase ? kEndsErased : 0); }

/// Changed maps have a version of their own.
Smap published(const Smap& before, Smap next) {
  const bool changed = std::any_of(next.nodes.begin(), next.nodes.end(), [&](const auto& entry) {
    return entry.second.flags != before.nodes.at(entry.first).flags;
  });
  if (changed) ++next.version;
  return next;
}

}  // namespace

bool is_ending(const Smap& map) {
  return std::any_of(map.nodes.begin(), map.nodes.end(),
                     [](const auto& entry) { return ends(entry.second); });
}

bool ends_erased(const Smap& map) {
  return std::any_of(map.nodes.begin(), map.nodes.end(),
                     [](const auto& entry) { return (entry.second.flags & kEndsErased) != 0; });
}

Result<Smap> with_cluster_end(const Smap& map, const std::set<std::string>& live,
                              const std::set<std::string>& ended, bool erase, bool force) {
  const bool again = is_ending(map);
  if (again && ends_erased(map) != erase)
    return fail(Errc::conflict,
                "the cluster is being decommissioned already, and what users stored is {}: ask for "
                "the same again",
                erase ? "kept (without rm_user_data)" : "erased (rm_user_data)");
  Smap next = map;
  for (auto& [id, node] : next.nodes) {
    const bool has_ended = again && (node.role == Role::proxy || ended.contains(id) || !ends(node));
    if (live.contains(id)) {
      node.flags |= flags_of_end(erase);
    } else if (has_ended) {
      continue;
    } else if (force) {
      node.flags &= ~(kEnds | kEndsErased);
    } else {
      return fail(
          Errc::conflict,
          "node {} is down{}: start it first, or say frc=true to leave it out, with what is "
          "on its drives",
          id, again ? " and has not ended in order" : "");
    }
  }
  return published(map, std::move(next));
}

Smap with_all_that_live(const Smap& map, const std::set<std::string>& live) {
  Smap next = map;
  for (auto& [id, node] : next.nodes)
    if (live.contains(id)) node.flags |= flags_of_end(ends_erased(map));
  return published(map, std::move(next));
}

std::vector<std::string> left_out(const Smap& map) {
  std::vector<std::string> out;
  for (const auto& [id, node] : map.nodes)
    if (!ends(node)) out.push_back(id);
  return out;
}

std::vector<std::string> waited_for(const Smap& map, const std::set<std::string>& ended) {
  std::vector<std::string> out;
  for (const auto& [id, node] : map.nodes)
    if (node.role == Role::target && ends(node) && !ended.contains(id)) out.push_back(id);
  return out;
}

bool target_is_to_end(const ClusterState& state, const std::string& id) {
  const Node* node = state.map.find(id);
  if (node == nullptr || node->role != Role::target || !ends(*node)) return false;
  return (node->flags & kEndsErased) == 0 || state.bmd.buckets.empty();
}

Task<Result<std::set<std::string>>> read_ended(MetaStore& store) {
  RangeRequest notes{std::string(keys::kEnded), prefix_end(std::string(keys::kEnded)), 0};
  CO_TRY(const auto found, co_await store.range(std::move(notes)));
  std::set<std::string> out;
  for (const KeyValue& item : found.items) out.insert(item.key.substr(keys::kEnded.size()));
  co_return out;
}

Task<Status> note_ended(MetaStore& store, std::string id) {
  Transaction note;
  note.puts.push_back({std::string(keys::kEnded) + id, "1", 0});
  CO_TRY_OK(co_await store.commit(std::move(note)));
  co_return Status();
}

Task<Status> remove_cluster(MetaStore& store, std::string uuid) {
  RangeRequest key{std::string(keys::kCluster), "", 0};
  CO_TRY(const auto found, co_await store.range(std::move(key)));
  if (found.items.empty()) co_return Status();
  if (found.items.front().value != uuid)
    co_return fail(Errc::conflict, "the meta store holds cluster {} now, not {}",
                   found.items.front().value, uuid);
  Transaction removal;
  removal.compare.push_back(
      {std::string(keys::kCluster), Compare::What::mod_revision, found.items.front().mod_revision});
  removal.deletes.push_back({std::string(keys::kFirst), prefix_end(std::string(keys::kAll))});
  CO_TRY(const auto done, co_await store.commit(std::move(removal)));
  if (!done.succeeded) co_return fail(Errc::conflict, "the cluster was changed meanwhile");
  co_return Status();
}

}  // namespace tarn::cluster
