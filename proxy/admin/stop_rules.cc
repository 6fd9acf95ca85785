#include "proxy/admin/stop_rules.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/api/inventory.h"
#include "common/api/mirror_props.h"
#include "common/base/encoding.h"
#include "common/cluster/place/slice_plan.h"
#include "common/cluster/place/visible_names.h"

namespace tarn::proxy {
namespace {

using cluster::ClusterState;
using cluster::Node;
using cluster::Role;

bool is_up(const StopCase& stop, const Node& node) {
  return stop.state.live.contains(node.id) && !stop.silent.contains(node.id);
}

/// As the command line has it: a bucket of the cluster's own without "ais://".
std::string shown_name(const api::Bucket& bucket) {
  const std::string name = bucket.display();
  constexpr std::string_view kOwn = "ais://";
  return name.starts_with(kOwn) ? name.substr(kOwn.size()) : name;
}

/// Targets that a bucket needs, and can lose when all are up.
struct BucketNeeds {
  std::size_t survives = 0;       ///< targets that may be away without an object unreadable
  std::size_t write_targets = 1;  ///< least number that a write needs
};

/// `standing`: the targets that stay in the cluster, up or not.
BucketNeeds needs_of(const cluster::BucketRecord& bucket, const cluster::NodeSet& standing) {
  const api::BucketProps& props = bucket.props;
  const bool strict = props.durability == cluster::Durability::strict;
  const auto coding = api::coding_of(props);
  const std::size_t copies = coding ? coding->m + std::size_t{1} : api::node_copies_of(props);
  BucketNeeds out;
  out.survives = std::min(copies, standing.size()) - (standing.empty() ? 0 : 1);
  out.write_targets = strict ? copies : std::max<std::size_t>(1, copies - 1);
  if (!coding) return out;
  const auto reach = cluster::slice_reach(standing, coding->k, coding->m, coding->full_copy);
  out.survives = std::min(out.survives, reach.nodes);
  const std::size_t slices = std::size_t{coding->k} + coding->m;
  if (strict) out.write_targets = std::min(slices + (coding->full_copy ? 1 : 0), standing.size());
  return out;
}

/// "a, b, c and 4 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, names.size())));
  std::string out = fmt::format("{}", fmt::join(first, ", "));
  if (names.size() > kNamed) out += fmt::format(" and {} more", names.size() - kNamed);
  return out;
}

void judge_proxies(const StopCase& stop, StopAnswer& answer) {
  bool stops_one = false;
  bool other_up = false;
  std::size_t proxies = 0;
  for (const auto& [id, node] : stop.state.map.nodes) {
    if (node.role != Role::proxy) continue;
    ++proxies;
    if (stop.stops.contains(id))
      stops_one = true;
    else
      other_up = other_up || stop.state.live.contains(id);
  }
  if (!stops_one || other_up) return;
  if (proxies == 1)
    answer.notes.emplace_back("the cluster has one proxy: clients reach nothing while it is away");
  else
    answer.reasons.emplace_back("no other proxy is up");
}

/// Targets that own names by the map and do not answer: no other target has taken over yet.
void judge_silent(const StopCase& stop, StopAnswer& answer) {
  for (const auto& [id, node] : stop.state.map.nodes)
    if (node.placeable() && !stop.stops.contains(id) && !is_up(stop, node))
      answer.reasons.push_back(fmt::format(
          "target {} does not answer, and others have not taken its names over yet", id));
}

/// Names that are being handed over, of which a past replica may be the only one that has them.
void judge_hand_over(const StopCase& stop, StopAnswer& answer) {
  const cluster::Ownership map = cluster::ownership_of(stop.state.map);
  const auto away_now = [&](const std::string& id) {
    const Node* node = stop.state.map.find(id);
    return node == nullptr || !is_up(stop, *node);
  };
  const auto away_then = [&](const std::string& id) {
    return away_now(id) || stop.stops.contains(id);
  };
  std::vector<std::string> names;
  for (const auto& [name, bucket] : stop.state.bmd.buckets) {
    const cluster::ReplicaCount count = bucket.replica_count();
    if (cluster::shows_past_names(map, count, away_now) &&
        !cluster::shows_past_names(map, count, away_then))
      names.push_back(shown_name(name));
  }
  if (names.empty()) return;
  const auto away = other_targets_away(stop);
  answer.reasons.push_back(
      fmt::format("names of {} {} are still handed over, and {} may be all that has them{}",
                  names.size() == 1 ? "bucket" : "buckets", some_of(names),
                  stop.stops.size() == 1 ? "this target" : "these targets",
                  away.empty() ? " (tarn cluster rebalance show)"
                               : fmt::format(" while {} {} away", fmt::join(away, ", "),
                                             away.size() == 1 ? "is" : "are")));
}

/// Targets that would be left to take writes.
std::size_t writers_left(const StopCase& stop) {
  std::size_t out = 0;
  for (const auto& [id, node] : stop.state.map.nodes)
    if (node.placeable() && !stop.stops.contains(id) && is_up(stop, node)) ++out;
  return out;
}

/// Writes of a bucket when `left` targets are up. `most`: with all but one up.
void judge_writes(const cluster::BucketRecord& bucket, const BucketNeeds& needs, std::size_t left,
                  std::size_t most, StopAnswer& answer) {
  if (left >= needs.write_targets) return;
  const auto line =
      fmt::format("bucket {} could not be written: a write needs {} targets, and {} would be up",
                  shown_name(bucket.name), needs.write_targets, left);
  (most >= needs.write_targets ? answer.reasons : answer.notes).push_back(line);
}

}  // namespace

void to_json(nlohmann::json& out, const StopAnswer& answer) {
  out = {{"safe", answer.safe()},
         {"nodes", answer.nodes},
         {"reasons", answer.reasons},
         {"notes", answer.notes}};
}

std::vector<std::string> other_targets_away(const StopCase& stop) {
  std::vector<std::string> out;
  for (const auto& [id, node] : stop.state.map.nodes)
    if (node.role == Role::target && !stop.stops.contains(id) && !is_up(stop, node))
      out.push_back(id);
  return out;
}

StopCounts judge_map(const StopCase& stop, StopAnswer& answer) {
  answer.nodes = stop.stops;
  judge_proxies(stop, answer);
  StopCounts counts;
  const auto stops_target = [&](const std::string& id) {
    const Node* node = stop.state.map.find(id);
    return node != nullptr && node->role == Role::target;
  };
  if (std::none_of(stop.stops.begin(), stop.stops.end(), stops_target)) return counts;
  judge_silent(stop, answer);
  judge_hand_over(stop, answer);
  const cluster::NodeSet standing =
      cluster::standing_members(cluster::ownership_of(stop.state.map));
  const std::size_t left = writers_left(stop);
  const std::size_t most = standing.size() - (standing.empty() ? 0 : 1);
  for (const auto& [name, bucket] : stop.state.bmd.buckets) {
    // Objects of system buckets can be made anew.
    if (bucket.ending || api::is_system_bucket(name)) continue;
    const BucketNeeds needs = needs_of(bucket, standing);
    judge_writes(bucket, needs, left, most, answer);
    const bool on_nodes = bucket.replica_count().many() || api::was_ever_coded(bucket.props);
    if (on_nodes && needs.survives > 0)
      counts.redundant.push_back(bucket.id);
    else if (api::coding_of(bucket.props))
      answer.notes.push_back(fmt::format(
          "bucket {} survives the loss of no target, since there are too few of them: its objects "
          "answer 503 meanwhile",
          shown_name(name)));
    else
      counts.single.push_back(bucket.id);
  }
  return counts;
}

void add_unreadable(const StopCase& stop, const api::Bucket& bucket, std::uint64_t objects,
                    const std::string& first, StopAnswer& answer) {
  const auto away = other_targets_away(stop);
  answer.reasons.push_back(fmt::format(
      "bucket {}: {} {} would be unreadable, such as {}: too little of {} lies on other targets{}",
      shown_name(bucket), objects, objects == 1 ? "object" : "objects", printable(first),
      objects == 1 ? "it" : "them",
      away.empty() ? fmt::format(" (tarn redundancy {})", shown_name(bucket))
                   : fmt::format(" while {} {} away", fmt::join(away, ", "),
                                 away.size() == 1 ? "is" : "are")));
}

void add_single(const api::Bucket& bucket, std::uint64_t objects, StopAnswer& answer) {
  if (objects == 0) return;
  answer.notes.push_back(fmt::format(
      "bucket {}: {} {} on one target only and {} 503 meanwhile", shown_name(bucket), objects,
      objects == 1 ? "object lies" : "objects lie", objects == 1 ? "answers" : "answer"));
}

}  // namespace tarn::proxy
