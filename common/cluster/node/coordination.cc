#include "common/cluster/node/coordination.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "common/base/event.h"
#include "common/base/resume.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/keys.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

constexpr std::chrono::milliseconds kCoordinationLookEvery{500};

/// The keys that steps rest on, read at one revision, to be compared when a step is committed.
struct Reading {
  std::map<std::string, Revision> written;  ///< key -> mod_revision
  Smap map;
  std::shared_ptr<const OwnershipState> state;
  ProxyVersions proxies;

  [[nodiscard]] Compare unchanged(const std::string& key) const {
    const auto found = written.find(key);
    return {key, Compare::What::mod_revision, found == written.end() ? 0 : found->second};
  }
};

Result<Reading> read_keys(const RangeResult& found) {
  Reading out;
  std::uint64_t settled = 0;
  std::map<std::string, LiveRecord> live;
  for (const KeyValue& item : found.items) {
    out.written[item.key] = item.mod_revision;
    if (item.key == keys::kMap) {
      TRY(out.map, decode_map(item.value));
    } else if (item.key == keys::kSettled) {
      TRY(settled, decode_number(item.key, item.value));
    } else if (item.key.starts_with(keys::kLive)) {
      TRY(live[item.key.substr(keys::kLive.size())], decode_live(item));
    }
  }
  out.state = ownership_state(found.revision, out.map, settled, live);
  for (const auto& [id, record] : live)
    if (record.role == Role::proxy) out.proxies[id] = record.map_version;
  return out;
}

/// live/, map and settled, with what sorts between them.
Task<Result<Reading>> read_now(MetaStore& store) {
  RangeRequest keys{std::string(keys::kLive), prefix_end(std::string(keys::kSettled)), 0};
  CO_TRY(const auto found, co_await store.range(std::move(keys)));
  co_return read_keys(found);
}

void put_map(const Smap& map, Transaction& out) {
  out.puts.push_back({std::string(keys::kMap), nlohmann::json(map).dump(), 0});
  out.puts.push_back({std::string(keys::kMapVersion), std::to_string(map.version), 0});
}

/// The map without these proxies.
Transaction removal_of(const std::vector<std::string>& proxies, const Reading& read) {
  Transaction out;
  out.compare.push_back(read.unchanged(std::string(keys::kMap)));
  Smap next = read.map;
  for (const std::string& id : proxies) {
    if (!read.proxies.contains(id)) out.compare.push_back(read.unchanged(keys::live(id)));
    next.nodes.erase(id);
  }
  ++next.version;
  put_map(next, out);
  return out;
}

Transaction transaction_of(const CoordinatorStep& step, const Reading& read) {
  Transaction out;
  out.compare.push_back(read.unchanged(std::string(keys::kMap)));
  out.compare.push_back(read.unchanged(std::string(keys::kSettled)));
  for (const auto* ids : {&step.absent, &step.present})
    for (const std::string& id : *ids) out.compare.push_back(read.unchanged(keys::live(id)));
  if (step.settle) {
    out.puts.push_back({std::string(keys::kSettled), std::to_string(*step.settle), 0});
    out.puts.push_back({std::string(keys::kSchema), std::string(schema_of(read.map)), 0});
  }
  if (step.publish) {
    Smap next = read.map;
    take_ownership(next, *step.publish);
    put_map(next, out);
  }
  return out;
}

void log_step(const CoordinatorStep& step) {
  const auto log = [](const char* what, const std::vector<std::string>& ids) {
    for (const std::string& id : ids) obs::log("cluster").warn("{} node={}", what, id);
  };
  if (step.settle) obs::log("cluster").debug("settled map={}", *step.settle);
  if (!step.publish) return;
  log("target down, out or taken out", step.absent);
  log("target up", step.present);
  obs::log("cluster").info("map published version={} targets={} past={}", step.publish->version,
                           step.publish->current.size(), step.publish->past.size());
}

/// Age of each time of `since`; 0 for other ids. `since` must outlive it.
AbsentFor times_since(const std::map<std::string, BootTime>& since, BootTime now) {
  return [&since, now](const std::string& id) {
    const auto found = since.find(id);
    return found == since.end() ? std::chrono::nanoseconds(0) : now - found->second;
  };
}

class Coordinator {
 public:
  Coordinator(MetaStore& store, ClusterView& view, const Membership& membership, Clock& clock,
              Leader leader, AbsenceLimits limits, Absences& absences)
      : store_(store),
        view_(view),
        membership_(membership),
        clock_(clock),
        leader_(leader),
        limits_(limits),
        absences_(absences) {}

  /// Takes one step if there is one. True: there may be another.
  Task<bool> look();
  /// Takes proxies that left, or have been down for long, out of the map.
  Task<void> release_proxies();

 private:
  [[nodiscard]] bool leads(const ClusterState& state) const;
  void note_live(const OwnershipState& state);
  void note_absences(const OwnershipState& state);
  void note_absent_proxies(const ClusterState& state);
  [[nodiscard]] std::optional<CoordinatorStep> step_for(const OwnershipState& state);

  MetaStore& store_;
  ClusterView& view_;
  const Membership& membership_;
  Clock& clock_;
  Leader leader_;
  AbsenceLimits limits_;
  Absences& absences_;
  std::optional<BootTime> leads_since_;
  std::map<std::string, BootTime> absent_since_;  // targets
  std::map<std::string, BootTime> proxies_absent_since_;
  std::set<std::string> seen_;  // targets that had a lease since this proxy has had its own
};

bool Coordinator::leads(const ClusterState& state) const {
  if (!membership_.lease().valid()) return false;
  return leader_ == Leader::this_proxy || state.primary == membership_.self().id;
}

void Coordinator::note_live(const OwnershipState& state) {
  for (const TargetStatus& status : state.live) seen_.insert(status.id);
}

void Coordinator::note_absences(const OwnershipState& state) {
  std::erase_if(absent_since_, [&](const auto& entry) {
    return state.find(entry.first) != nullptr || state.map->find(entry.first) == nullptr;
  });
  note_live(state);
  for (const Member& member : state.map->members)
    if (state.find(member.id) == nullptr) absent_since_.try_emplace(member.id, clock_.boot_time());
  absences_.learn(absent_since_);
}

std::optional<CoordinatorStep> Coordinator::step_for(const OwnershipState& state) {
  note_absences(state);
  const bool new_absence =
      std::any_of(state.map->members.begin(), state.map->members.end(), [&](const Member& member) {
        return (member.flags & kDown) == 0 && state.find(member.id) == nullptr &&
               !seen_.contains(member.id);
      });
  if (new_absence && clock_.boot_time() - *leads_since_ < membership_.lease().term().term)
    return std::nullopt;
  return next_step(state, times_since(absent_since_, clock_.boot_time()), limits_);
}

void Coordinator::note_absent_proxies(const ClusterState& state) {
  std::erase_if(proxies_absent_since_, [&](const auto& entry) {
    return state.live.contains(entry.first) || !state.map.nodes.contains(entry.first);
  });
  for (const auto& [id, node] : state.map.nodes)
    if (node.role == Role::proxy && !state.live.contains(id))
      proxies_absent_since_.try_emplace(id, clock_.boot_time());
}

Task<bool> Coordinator::look() {
  const auto known = view_.state();
  if (!leads(*known)) {
    leads_since_.reset();
    absent_since_.clear();
    proxies_absent_since_.clear();
    absences_.learn({});
    // A proxy that always follows the store knows, when it comes to lead, which leases were there.
    if (membership_.lease().valid())
      note_live(*known->ownership);
    else
      seen_.clear();
    co_return false;
  }
  if (!leads_since_) leads_since_ = clock_.boot_time();
  if (!step_for(*known->ownership)) co_return false;
  // From what the store holds now: the comparisons need it.
  auto read = co_await read_now(store_);
  if (!read) co_return false;
  const auto step = step_for(*read->state);
  if (!step) co_return false;
  Transaction transaction = transaction_of(*step, *read);
  const auto done = co_await store_.commit(std::move(transaction));
  if (!done || !done->succeeded) co_return false;
  log_step(*step);
  const Status loaded = co_await view_.load();
  co_return loaded.has_value();
}

Task<void> Coordinator::release_proxies() {
  const auto known = view_.state();
  if (!leads(*known)) co_return;
  note_absent_proxies(*known);
  const AbsentFor absent = times_since(proxies_absent_since_, clock_.boot_time());
  if (proxies_that_left(known->map, {}, absent, limits_).empty()) co_return;
  const auto read = co_await read_now(store_);
  if (!read) co_return;
  const auto left = proxies_that_left(read->map, read->proxies, absent, limits_);
  if (left.empty()) co_return;
  Transaction transaction = removal_of(left, *read);
  const auto done = co_await store_.commit(std::move(transaction));
  if (!done || !done->succeeded) co_return;
  for (const std::string& id : left) obs::log("cluster").warn("proxy taken out node={}", id);
  static_cast<void>(co_await view_.load());
}

}  // namespace

Task<void> coordinate(MetaStore& store, ClusterView& view, const Membership& membership,
                      Clock& clock, Leader leader, AbsenceLimits limits, Absences& absences) {
  co_await asio::this_coro::throw_if_cancelled(false);
  EventListener changes(view.changed(), co_await asio::this_coro::executor);
  Coordinator coordinator(store, view, membership, clock, leader, limits, absences);
  while (!co_await is_cancelled()) {
    const bool more = co_await coordinator.look();
    if (more) continue;
    co_await coordinator.release_proxies();
    co_await changes.wait_until(next_tick(kCoordinationLookEvery));
  }
}

}  // namespace tarn::cluster
