#include "tests/simulation/scale.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/cluster/coordinator.h"
#include "common/cluster/ownership_json.h"
#include "common/cluster/rebalance_plan.h"

namespace tarn::simulation {
namespace {

using cluster::Member;
using cluster::Ownership;

constexpr std::size_t kTargets = 1000;
constexpr std::uint32_t kDrives = 24;
constexpr double kNames = 1e8;
constexpr std::uint64_t kSampled = 2'000'000;  // of kNames; a target's whole share is 100,000
constexpr std::size_t kProxies = 10;

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

/// One change: what it moves, and how long a target thinks about its share of the names.
void print_change(std::string_view what, const Ownership& before, const Ownership& after) {
  cluster::MoveCount count;
  for (std::uint64_t name = 0; name < kSampled; ++name)
    cluster::count_move(count, before.current, after.current, digest_of(name));
  const double least = cluster::least_share(before.current, after.current);
  const double share = static_cast<double>(count.moved) / static_cast<double>(count.names);

  // As many names as one target holds, each planned by the target that holds it.
  const auto held = static_cast<std::uint64_t>(kNames / static_cast<double>(before.current.size()));
  std::vector<std::pair<std::uint64_t, std::string>> names;
  for (std::uint64_t name = 0; name < held; ++name)
    names.emplace_back(digest_of(name), before.current.owner(digest_of(name)));
  const auto begun = std::chrono::steady_clock::now();
  std::uint64_t sent = 0;
  for (const auto& [digest, self] : names)
    sent += cluster::plan_name(after, self, digest, 1).send.size();
  fmt::print(
      "{:34} {:.3f} % of names move ({} of them needlessly), share due {:.3f} %, ratio {:.3f}; "
      "{} names planned in {:.2f} s, {} to send\n",
      what, 100 * share, count.needless, 100 * least, share / least, names.size(),
      seconds_since(begun), sent);
}

Ownership with_flag(const Ownership& map, std::string_view id, std::uint64_t flag) {
  return cluster::with_flags(map, id, flag, 0).value();
}

void print_moves() {
  const Ownership map = cluster_of(kTargets);
  const std::string one = target_id(17);
  print_change("a target joins", map, cluster::with_member(map, member(kTargets)));
  Ownership ten = map;
  for (std::size_t i = 0; i < 10; ++i) ten = cluster::with_member(ten, member(kTargets + i));
  print_change("ten targets join one by one", map, ten);
  print_change("a target is drained", map, with_flag(map, one, cluster::kDecommission));
  const Ownership uneven = cluster_of(kTargets, 2.0);
  print_change("a target of weight 2 joins 1 and 2", uneven,
               cluster::with_member(uneven, member(kTargets, 2.0)));
}

std::size_t bytes(const Ownership& map) { return cluster::encode(map).size(); }

void print_sizes() {
  const Ownership map = cluster_of(kTargets);
  fmt::print("{:34} {} bytes as JSON\n", "map, settled", bytes(map));
  Ownership moving = cluster::with_member(map, member(kTargets));
  fmt::print("{:34} {} bytes\n", "map, one join not yet moved", bytes(moving));
  Ownership many = map;
  for (std::size_t i = 0; i < 20; ++i) many = with_flag(many, target_id(i), cluster::kDown);
  fmt::print("{:34} {} bytes, {} past sets\n", "map, 20 targets down one by one", bytes(many),
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
  std::uint64_t words = 0;
  while (true) {
    for (auto& word : state.live) {
      if (word.map_version < state.map->version) ++words;
      word.map_version = state.map->version;
      const std::uint64_t moved =
          state.settled == state.map->version ? state.map->version : word.moved;
      if (word.moved != moved && !state.map->past.empty()) ++words;
      word.moved = moved;
    }
    const auto step = cluster::next_step(state, nobody_absent, {});
    if (!step) break;
    ++commits;
    if (step->settle) state.settled = *step->settle;
    if (step->publish) state.map = std::make_shared<Ownership>(*step->publish);
  }
  const std::uint64_t watchers = kTargets + 1 + kProxies;
  fmt::print("{:34} {} commits by the coordinator, {} words of targets, past sets left: {}\n",
             "messages of a join", commits, words, state.map->past.size());
  fmt::print(
      "{:34} {} of map and settled; {} if every watcher hears every word, {} if only the "
      "coordinator does\n",
      "news to watchers", commits * watchers, words * watchers, words);
}

}  // namespace

int print_scale() {
  fmt::print("{} targets of {} drives, 10^8 names, {} of them sampled\n", kTargets, kDrives,
             kSampled);
  print_moves();
  print_sizes();
  print_messages();
  return 0;
}

}  // namespace tarn::simulation
