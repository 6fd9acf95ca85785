#include "common/cluster/state/state.h"

#include <algorithm>
#include <stdexcept>

#include <boost/container/small_vector.hpp>
#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/api/mirror_props.h"
#include "common/cluster/place/hrw.h"
#include "common/cluster/place/ownership_json.h"
#include "common/cluster/store/keys.h"
#include "common/http/client.h"

namespace tarn::cluster {
namespace {

using nlohmann::json;

constexpr std::uint64_t kFlagIc = 2;  // AIStore's "information centre": up to three proxies
constexpr int kIcMembersMax = 3;
constexpr std::uint64_t kAistoreFlags = 0xffff;  // flags above these are ours

std::string_view role_text(Role role) { return role == Role::proxy ? "proxy" : "target"; }

Role parse_role(const std::string& text) {
  if (text == "proxy") return Role::proxy;
  if (text == "target") return Role::target;
  throw std::invalid_argument("unknown role '" + text + "' in the cluster map");
}

json state_node_json(const Node& node) {
  json out{{"id", node.id},
           {"role", role_text(node.role)},
           {"public_url", node.public_url},
           {"internal_url", node.internal_url},
           {"flags", node.flags},
           {"weight", node.weight}};
  if (!node.relay_url.empty()) out["relay_url"] = node.relay_url;
  for (const ClientAddress& each : node.client_addresses)
    out["client_addresses"].push_back({{"network", each.network.text()}, {"url", each.url}});
  if (node.drives != 1) out["drives"] = node.drives;
  if (node.drive_set != 0) out["drive_set"] = node.drive_set;
  if (!node.zone.empty()) out["zone"] = node.zone;
  return out;
}

Node node_from(const json& in) {
  Node node;
  in.at("id").get_to(node.id);
  node.role = parse_role(in.at("role").get<std::string>());
  in.at("public_url").get_to(node.public_url);
  in.at("internal_url").get_to(node.internal_url);
  node.relay_url = in.value("relay_url", "");
  for (const json& each : in.value("client_addresses", json::array())) {
    auto network = IpNetwork::parse(each.at("network").get<std::string>());
    if (!network) throw std::invalid_argument(network.error().message);
    node.client_addresses.push_back({*network, each.at("url").get<std::string>()});
  }
  node.flags = in.value("flags", std::uint64_t{0});
  node.weight = in.value("weight", 1.0);
  if (!(node.weight > 0))
    throw std::invalid_argument("node " + node.id + " has a weight that is not above 0");
  node.drives = in.value("drives", std::uint32_t{1});
  if (node.drives == 0) throw std::invalid_argument("node " + node.id + " has no drive");
  node.digest = placement_digest(node.id);
  node.drive_set = in.value("drive_set", std::uint64_t{0});
  node.zone = in.value("zone", "");
  return node;
}

json net_json(const std::string& url) {
  const auto parsed = http::parse_url(url);
  return {{"node_ip_addr", parsed ? parsed->host : ""},
          {"daemon_port", parsed ? std::to_string(parsed->port) : ""},
          {"direct_url", url}};
}

/// The namespace of a bucket as BMD keys have it: "@#" or "@uuid#name".
std::string namespace_key(const api::Bucket& bucket) {
  return "@" + bucket.ns_uuid + "#" + bucket.ns_name;
}

}  // namespace

const Node* Smap::find(const std::string& id) const {
  const auto found = nodes.find(id);
  return found == nodes.end() ? nullptr : &found->second;
}

std::vector<const Node*> Smap::placeable_targets() const {
  std::vector<const Node*> out;
  for (const auto& [id, node] : nodes)
    if (node.placeable()) out.push_back(&node);
  return out;
}

Ownership ownership_of(const Smap& map) {
  Ownership out;
  out.version = map.version;
  for (const auto& [id, node] : map.nodes) {
    if (node.role != Role::target) continue;
    out.members.push_back(
        {id, node.digest, node.weight, node.drives, node.flags, node.drive_set, node.zone});
  }
  out.current = owning_members(out.members);
  out.past = map.past;
  out.copies_since = map.copies_since;
  return out;
}

void take_ownership(Smap& map, const Ownership& next) {
  std::erase_if(map.nodes, [&](const auto& entry) {
    return entry.second.role == Role::target && next.find(entry.first) == nullptr;
  });
  for (const Member& member : next.members) {
    Node& node = map.nodes.at(member.id);
    node.flags = member.flags;
    node.weight = member.weight;
    node.drives = member.drives;
    node.drive_set = member.drive_set;
    node.zone = member.zone;
  }
  map.past = next.past;
  map.copies_since = next.copies_since;
  map.version = next.version;
}

std::string_view schema_of(const Smap& map) {
  const auto has_zone = [](const auto& entry) { return !entry.second.zone.empty(); };
  const auto had_zones = [](const PastEpoch& set) {
    return !set.nodes.empty() && !set.nodes.zone(0).empty();
  };
  const bool zones = std::any_of(map.nodes.begin(), map.nodes.end(), has_zone) ||
                     std::any_of(map.past.begin(), map.past.end(), had_zones);
  return zones ? keys::kZonesSchemaText : keys::kSchemaText;
}

void to_json(json& out, const Smap& map) {
  json nodes = json::array();
  for (const auto& [id, node] : map.nodes) nodes.push_back(state_node_json(node));
  out = {{"version", map.version},
         {"uuid", map.uuid},
         {"creation_time", map.creation_time},
         {"primary", map.primary},
         {"nodes", std::move(nodes)}};
  if (!map.past.empty()) out["past"] = past_json(ownership_of(map));
  if (map.copies_since != 0) out["copies_since"] = map.copies_since;
  if (map.rebalance != RebalanceOrder())
    out["rebalance"] = {{"held", map.rebalance.held}, {"asked", map.rebalance.asked}};
}

void from_json(const json& in, Smap& map) {
  map = Smap{};
  in.at("version").get_to(map.version);
  in.at("uuid").get_to(map.uuid);
  map.creation_time = in.value("creation_time", "");
  map.primary = in.value("primary", "");
  for (const json& entry : in.at("nodes")) {
    Node node = node_from(entry);
    map.nodes[node.id] = std::move(node);
  }
  if (in.contains("past")) map.past = past_from(in["past"], ownership_of(map));
  map.copies_since = in.value("copies_since", std::uint64_t{0});
  if (in.contains("rebalance")) {
    in["rebalance"].at("held").get_to(map.rebalance.held);
    in["rebalance"].at("asked").get_to(map.rebalance.asked);
  }
}

json aistore_json(const Node& node) {
  json out{{"daemon_id", node.id},
           {"daemon_type", role_text(node.role)},
           {"public_net", net_json(node.public_url)},
           {"intra_control_net", net_json(node.internal_url)},
           {"intra_data_net", net_json(node.internal_url)},
           {"flags", node.flags & kAistoreFlags},
           {"id_digest", node.digest}};
  if (!node.zone.empty()) out["zone"] = node.zone;
  return out;
}

json aistore_json(const Smap& map) {
  json proxies = json::object();
  json targets = json::object();
  int ic_members = 0;
  for (const auto& [id, node] : map.nodes) {
    json entry = aistore_json(node);
    if (node.role == Role::proxy && ic_members < kIcMembersMax) {
      ++ic_members;
      entry["flags"] = (node.flags & kAistoreFlags) | kFlagIc;
    }
    (node.role == Role::proxy ? proxies : targets)[id] = std::move(entry);
  }
  json primary = json::object();
  if (proxies.contains(map.primary)) {
    primary = proxies[map.primary];
  } else if (!proxies.empty()) {
    primary = proxies.front();
  }
  return {{"pmap", std::move(proxies)},         {"tmap", std::move(targets)},
          {"proxy_si", std::move(primary)},     {"uuid", map.uuid},
          {"creation_time", map.creation_time}, {"version", std::to_string(map.version)}};
}

ReplicaCount BucketRecord::replica_count() const {
  return {api::replicas_of(props), past_replica_counts};
}

void to_json(json& out, const BucketRecord& bucket) {
  out = {{"id", raw(bucket.id)},
         {"bucket", bucket.name},
         {"durability", to_string(bucket.props.durability)},
         {"versioning", bucket.props.versioning},
         {"created_ns", bucket.created_ns}};
  if (bucket.first_name) out["first_name"] = *bucket.first_name;
  if (bucket.former_name) out["former_name"] = *bucket.former_name;
  if (bucket.ending) out["ending"] = true;
  if (bucket.comes_again) out["comes_again"] = true;
  for (const PastReplicaCount& each : bucket.past_replica_counts)
    out["pieces_before"].push_back({each.last, each.count});
  for (const auto& [path, value] : bucket.props.others)
    out["props"][path] = json::parse(value, nullptr, false);
}

void from_json(const json& in, BucketRecord& bucket) {
  bucket = BucketRecord{};
  bucket.id = BucketId{in.at("id").get<std::uint64_t>()};
  in.at("bucket").get_to(bucket.name);
  const auto durability = api::parse_durability(in.value("durability", "full"));
  if (!durability)
    throw std::invalid_argument("bucket " + bucket.name.display() + ": " +
                                durability.error().message);
  bucket.props.durability = *durability;
  bucket.props.versioning = in.value("versioning", true);
  bucket.created_ns = in.value("created_ns", std::int64_t{0});
  if (in.contains("first_name")) bucket.first_name = in["first_name"].get<api::Bucket>();
  if (in.contains("former_name")) bucket.former_name = in["former_name"].get<api::Bucket>();
  bucket.ending = in.value("ending", false);
  bucket.comes_again = in.value("comes_again", false);
  for (const json& each : in.value("pieces_before", json::array()))
    bucket.past_replica_counts.push_back({each.at(0), each.at(1)});
  const auto others = in.value("props", json::object());
  for (const auto& [path, value] : others.items())
    bucket.props.others[path] = value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json aistore_props(const BucketRecord& bucket) {
  json out = api::props_tree(bucket.props);
  out["provider"] = bucket.name.provider;
  out["bid"] = std::to_string(raw(bucket.id));
  out["created"] = std::to_string(bucket.created_ns);
  return out;
}

const BucketRecord* Bmd::find(const api::Bucket& name) const {
  const auto found = buckets.find(name);
  return found == buckets.end() ? nullptr : &found->second;
}

const BucketRecord* Bmd::find(BucketId id) const {
  const auto found = std::find_if(buckets.begin(), buckets.end(),
                                  [&](const auto& entry) { return entry.second.id == id; });
  return found == buckets.end() ? nullptr : &found->second;
}

json aistore_json(const Bmd& bmd) {
  json providers = json::object();
  for (const auto& [name, record] : bmd.buckets)
    providers[name.provider][namespace_key(name)][name.name] = aistore_props(record);
  return {
      {"providers", std::move(providers)}, {"uuid", ""}, {"version", std::to_string(bmd.version)}};
}

const Node* owner_of(const Smap& map, std::string_view uname) {
  // Asked for every request: as many as most clusters have fit without memory of their own.
  boost::container::small_vector<const Node*, 64> targets;
  boost::container::small_vector<Candidate, 64> candidates;
  for (const auto& [id, node] : map.nodes) {
    if (!node.placeable()) continue;
    targets.push_back(&node);
    candidates.push_back({node.digest, node.weight});
  }
  if (targets.empty()) return nullptr;
  return targets[placement_first({candidates.data(), candidates.size()}, placement_digest(uname))];
}

}  // namespace tarn::cluster
