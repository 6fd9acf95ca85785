#include "tests/simulation/scale.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/cluster/place/ownership_json.h"
#include "common/cluster/place/rebalance_plan.h"
#include "common/cluster/state/coordinator.h"
#include "common/cluster/state/rhythm.h"
#include "tests/simulation/map_changes.h"
#include "tests/simulation/move_count.h"

namespace tarn::simulation {
namespace {

using cluster::Member;
using cluster::MoveCount;
using cluster::NodeSet;
using cluster::Ownership;

constexpr std::size_t kTargets = 1000;
constexpr std::uint32_t kDrives = 24;
constexpr double kNames = 1e8;
constexpr std::size_t kScaleProxies = 10;

struct Scale {
  std::uint64_t sampled = 0;  ///< of kNames; a target's whole share is 100,000
  bool good = true;
};

std::string target_id(std::size_t number) {
  return fmt::format("target-{:08x}", number * 2654435761U);
}

Member member(std::size_t number, double weight = 1.0) {
  Member out;
  out.id = target_id(number);
  out.digest = cluster::placement_digest(out.id);
  out.weight = weight;
  out.drives = kDrives;
  return out;
}

Ownership cluster_of(std::size_t targets, double every_third = 1.0) {
  std::vector<Member> members;
  members.reserve(targets);
  for (std::size_t i = 0; i < targets; ++i)
    members.push_back(member(i, i % 3 == 0 ? every_third : 1.0));
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.id < b.id; });
  return cluster::with_members(Ownership{}, std::move(members));
}

std::uint64_t digest_of(std::uint64_t name) {
  return cluster::placement_digest(fmt::format("ais/@#/train/shard-{:09}.tar", name));
}

double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

/// Replicas that one name loses and gains.
struct Swap {
  std::vector<std::string> lost;
  std::vector<std::string> gained;
};

std::vector<std::string> replicas(const NodeSet& set, std::uint64_t digest, std::size_t copies) {
  std::vector<std::string> out;
  for (const cluster::Replica& replica : set.replicas(digest, copies))
    out.push_back(set.id(replica.node));
  std::sort(out.begin(), out.end());
  return out;
}

Swap swap_of(const NodeSet& before, const NodeSet& after, std::uint64_t digest,
             std::size_t copies) {
  const auto from = replicas(before, digest, copies);
  const auto to = replicas(after, digest, copies);
  Swap out;
  std::set_difference(from.begin(), from.end(), to.begin(), to.end(), std::back_inserter(out.lost));
  std::set_difference(to.begin(), to.end(), from.begin(), from.end(),
                      std::back_inserter(out.gained));
  return out;
}

/// As cluster::count_move, of names with several copies: of copies that go from one of those that
/// stay to another one.
void count_copies(MoveCount& count, const NodeSet& before, const NodeSet& after,
                  std::uint64_t digest, std::size_t copies) {
  const Swap swap = swap_of(before, after, digest, copies);
  const auto stays = [](const NodeSet& set) {
    return [&set](const std::string& id) { return set.contains(id); };
  };
  count.names += copies;
  count.moved += swap.gained.size();
  count.needless += static_cast<std::uint64_t>(
      std::min(std::count_if(swap.lost.begin(), swap.lost.end(), stays(after)),
               std::count_if(swap.gained.begin(), swap.gained.end(), stays(before))));
}

/// Counts the copies of all sampled names, prints the beginning of a line, and judges.
void print_count(Scale& scale, std::string_view what, const NodeSet& before, const NodeSet& after,
                 std::size_t copies) {
  MoveCount count;
  // To order all targets takes longer than to find the first.
  const std::uint64_t sampled = copies == 1 ? scale.sampled : scale.sampled / 10;
  for (std::uint64_t name = 0; name < sampled; ++name)
    if (copies == 1)
      cluster::count_move(count, before, after, digest_of(name));
    else
      count_copies(count, before, after, digest_of(name), copies);
  const double least = cluster::least_share(before, after);
  const double share = static_cast<double>(count.moved) / static_cast<double>(count.names);
  fmt::print("{:34} {:.3f} % move ({} of them needlessly), share due {:.3f} %, ratio {:.3f}", what,
             100 * share, count.needless, 100 * least, share / least);
  const double luck = 4 / std::sqrt(least * static_cast<double>(count.names));
  if (count.needless == 0 && std::abs(share / least - 1) <= luck) return;
  fmt::print(" <- WRONG: wanted none needlessly and 1 within {:.3f}", luck);
  scale.good = false;
}

/// One change: what it moves, and how long a target thinks about its share of the names.
void print_change(Scale& scale, std::string_view what, const Ownership& before,
                  const Ownership& after, std::size_t copies = 1) {
  print_count(scale, what, before.current, after.current, copies);
  // As many copies as one target holds, each planned by the target that holds it.
  const auto held = static_cast<std::uint64_t>(kNames / static_cast<double>(before.current.size()));
  std::vector<std::pair<std::uint64_t, std::string>> plans;
  for (std::uint64_t name = 0; name < std::min(held, scale.sampled / 20); ++name) {
    const std::uint64_t digest = digest_of(name);
    if (copies == 1)
      plans.emplace_back(digest, before.current.owner(digest));
    else
      for (const std::string& id : replicas(before.current, digest, copies))
        plans.emplace_back(digest, id);
  }
  const auto begun = std::chrono::steady_clock::now();
  std::uint64_t sent = 0;
  for (const auto& [digest, self] : plans)
    sent += cluster::plan_name(after, self, digest, copies).send.size();
  fmt::print("; {} copies planned in {:.2f} s, {} to send\n", plans.size(), seconds_since(begun),
             sent);
}

Ownership with_flag(const Ownership& map, std::string_view id, std::uint64_t flag) {
  return cluster::with_flags(map, id, flag, 0).value();
}

void print_moves(Scale& scale) {
  const Ownership map = cluster_of(kTargets);
  const std::string one = target_id(17);
  print_change(scale, "a target joins", map, cluster::with_member(map, member(kTargets)));
  Ownership ten = map;
  for (std::size_t i = 0; i < 10; ++i) ten = cluster::with_member(ten, member(kTargets + i));
  print_change(scale, "ten targets join one by one", map, ten);
  print_change(scale, "a target is drained", map, with_flag(map, one, cluster::kDecommission));
  const Ownership uneven = cluster_of(kTargets, 2.0);
  print_change(scale, "a target of weight 2 joins 1 and 2", uneven,
               cluster::with_member(uneven, member(kTargets, 2.0)));
  print_change(scale, "a target joins, 2 copies", map, cluster::with_member(map, member(kTargets)),
               2);
  print_change(scale, "a target is drained, 2 copies", map,
               with_flag(map, one, cluster::kDecommission), 2);
}

/// The drives of one target are placed as targets are (target/drive/drive_places.cc): by HRW, of
/// equal weight when they are of one size.
NodeSet drives(std::uint32_t count) {
  NodeSet out;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string path = fmt::format("/mnt/drive{:02}", i);
    out.add(path, cluster::placement_digest(path), 1, 1);
  }
  return out;
}

void print_drives(Scale& scale) {
  print_count(scale, "a drive is added, of one target", drives(kDrives), drives(kDrives + 1), 1);
  fmt::print("\n");
  print_count(scale, "a drive is emptied, of one target", drives(kDrives), drives(kDrives - 1), 1);
  fmt::print("\n");
}

std::size_t bytes(const Ownership& map) { return cluster::encode(map).size(); }

void print_sizes() {
  const Ownership map = cluster_of(kTargets);
  fmt::print("{:34} {} bytes as JSON\n", "map, settled", bytes(map));
  Ownership moving = cluster::with_member(map, member(kTargets));
  fmt::print("{:34} {} bytes\n", "map, one join not yet moved", bytes(moving));
  Ownership many = map;
  for (std::size_t i = 0; i < 20; ++i) many = with_flag(many, target_id(i), cluster::kDown);
  fmt::print("{:34} {} bytes, {} past epochs\n", "map, 20 targets down one by one", bytes(many),
             many.past.size());
}

/// Writes to the store and news from it for one change, counted by running the coordinator against
/// targets that do what they are asked.
void print_messages() {
  cluster::OwnershipState state;
  state.map = std::make_shared<Ownership>(cluster_of(kTargets));
  state.settled = state.map->version;
  for (const Member& each : state.map->members)
    state.live.push_back({each.id, state.map->version, {}, state.map->version});
  const auto nobody_absent = [](const std::string&) { return std::chrono::nanoseconds(0); };
  state.map = std::make_shared<Ownership>(cluster::with_member(*state.map, member(kTargets)));
  state.live.push_back({target_id(kTargets), state.map->version, {}, 0});

  std::uint64_t commits = 1;  // the registration of the new target
  std::uint64_t statuses = 0;
  while (true) {
    for (auto& status : state.live) {
      if (status.map_version < state.map->version) ++statuses;
      status.map_version = state.map->version;
      const std::uint64_t moved =
          state.settled == state.map->version ? state.map->version : status.moved;
      if (status.moved != moved && !state.map->past.empty()) ++statuses;
      status.moved = moved;
    }
    const auto step = cluster::next_step(state, nobody_absent, {});
    if (!step) break;
    ++commits;
    if (step->settle) state.settled = *step->settle;
    if (step->publish) state.map = std::make_shared<Ownership>(*step->publish);
  }
  const std::uint64_t watchers = kTargets + 1 + kScaleProxies;
  fmt::print("{:34} {} commits by the coordinator, {} statuses of targets, past epochs left: {}\n",
             "messages of a join", commits, statuses, state.map->past.size());
  fmt::print(
      "{:34} {} of map and settled; {} if every watcher hears every status, {} if only the "
      "coordinator does\n",
      "news to watchers", commits * watchers, statuses * watchers, statuses);
}

double a_second(std::chrono::milliseconds period) {
  return 1 / std::chrono::duration<double>(period).count();
}

/// Messages of nodes while nothing changes (common/cluster/state/rhythm.h).
void print_rest() {
  constexpr double kNodes = kTargets + kScaleProxies;
  const double polls = kNodes * a_second(cluster::LeaseTerm().poll_every());
  const double reloads = polls / cluster::kPollsPerReload;
  const double beats = static_cast<double>(kTargets) * a_second(cluster::kHeartbeatEvery);
  fmt::print("{:34} {:.0f} renewals and {:.0f} polls a second, {:.1f} of them read all\n",
             "the meta store at rest", kNodes * a_second(cluster::LeaseTerm().renew_every()), polls,
             reloads);
  fmt::print("{:34} {:.0f} lines a second at each of {} proxies, {:.0f} at each target\n",
             "heartbeats", beats, kScaleProxies,
             static_cast<double>(kScaleProxies) * a_second(cluster::kHeartbeatEvery));
}

}  // namespace

int print_scale(std::uint64_t sampled) {
  Scale scale{.sampled = sampled};
  fmt::print("{} targets of {} drives, 10^8 names, {} of them sampled\n", kTargets, kDrives,
             sampled);
  print_moves(scale);
  print_drives(scale);
  print_sizes();
  print_messages();
  print_rest();
  return scale.good ? 0 : 1;
}

}  // namespace tarn::simulation
