#include "common/cluster/place/ownership_json.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"

namespace tarn::cluster {
namespace {

using nlohmann::json;

json ownership_json_node_json(const std::string& id, double weight, std::uint32_t drives,
                              const std::string& zone) {
  json out{{"id", id}};
  if (weight != 1.0) out["weight"] = weight;
  if (drives != 1) out["drives"] = drives;
  if (!zone.empty()) out["zone"] = zone;
  return out;
}

Member member_from(const json& in) {
  Member out;
  in.at("id").get_to(out.id);
  out.digest = placement_digest(out.id);
  out.weight = in.value("weight", 1.0);
  out.drives = in.value("drives", std::uint32_t{1});
  out.flags = in.value("flags", std::uint64_t{0});
  out.drive_set = in.value("drive_set", std::uint64_t{0});
  out.zone = in.value("zone", "");
  if (!(out.weight > 0)) throw std::invalid_argument(out.id + " has a weight that is not above 0");
  if (out.drives == 0) throw std::invalid_argument(out.id + " has no drive");
  return out;
}

bool has_same(const NodeSet& set, const NodeSet& from, std::size_t index) {
  for (std::size_t i = 0; i < set.size(); ++i)
    if (set.id(i) == from.id(index))
      return set.weight(i) == from.weight(index) && set.drives(i) == from.drives(index) &&
             set.zone(i) == from.zone(index);
  return false;
}

json set_json(const PastEpoch& past, const NodeSet& current) {
  json out{{"last", past.last}};
  for (std::size_t i = 0; i < current.size(); ++i)
    if (!has_same(past.nodes, current, i)) out["without"].push_back(current.id(i));
  for (std::size_t i = 0; i < past.nodes.size(); ++i)
    if (!has_same(current, past.nodes, i))
      out["with"].push_back(ownership_json_node_json(past.nodes.id(i), past.nodes.weight(i),
                                                     past.nodes.drives(i), past.nodes.zone(i)));
  if (!past.lost.empty()) out["lost"] = past.lost;
  if (!past.only_for.empty()) out["only_for"] = past.only_for;
  if (past.copies_since != 0) out["copies_since"] = past.copies_since;
  return out;
}

PastEpoch set_from(const json& in, const NodeSet& current, const std::vector<Member>& members) {
  PastEpoch out;
  in.at("last").get_to(out.last);
  const json without = in.value("without", json::array());
  const bool has_zones = zones_in_use(members);
  for (const Member& member : members)
    if (current.contains(member.id) &&
        std::find(without.begin(), without.end(), member.id) == without.end())
      out.nodes.add(member.id, member.digest, member.weight, 1, has_zones ? member.zone : "");
  for (const json& entry : in.value("with", json::array())) {
    Member member = member_from(entry);
    if (out.nodes.contains(member.id))
      throw std::invalid_argument(member.id + " is twice in a past epoch");
    out.nodes.add(std::move(member.id), member.digest, member.weight, member.drives, member.zone);
  }
  out.lost = in.value("lost", std::vector<std::string>());
  out.only_for = in.value("only_for", std::vector<std::string>());
  out.copies_since = in.value("copies_since", std::uint64_t{0});
  return out;
}

Ownership ownership_from(const json& in) {
  Ownership out;
  in.at("version").get_to(out.version);
  for (const json& entry : in.at("members")) {
    Member member = member_from(entry);
    if (!out.members.empty() && out.members.back().id >= member.id)
      throw std::invalid_argument("members are not sorted at " + member.id);
    out.members.push_back(std::move(member));
  }
  out.current = owning_members(out.members);
  out.past = past_from(in.at("past"), out);
  out.copies_since = in.value("copies_since", std::uint64_t{0});
  return out;
}

}  // namespace

json past_json(const Ownership& map) {
  json out = json::array();
  for (const PastEpoch& set : map.past) out.push_back(set_json(set, map.current));
  return out;
}

std::vector<PastEpoch> past_from(const json& in, const Ownership& map) {
  std::vector<PastEpoch> out;
  std::uint64_t newer = map.version;
  for (const json& entry : in) {
    out.push_back(set_from(entry, map.current, map.members));
    if (out.back().last >= newer)
      throw std::invalid_argument("past epochs are not sorted, newest first");
    newer = out.back().last;
  }
  return out;
}

std::string encode(const Ownership& map) {
  json members = json::array();
  for (const Member& member : map.members) {
    json entry = ownership_json_node_json(member.id, member.weight, member.drives, member.zone);
    if (member.flags != 0) entry["flags"] = member.flags;
    if (member.drive_set != 0) entry["drive_set"] = member.drive_set;
    members.push_back(std::move(entry));
  }
  json out{{"version", map.version}, {"members", std::move(members)}, {"past", past_json(map)}};
  if (map.copies_since != 0) out["copies_since"] = map.copies_since;
  return out.dump();
}

Result<Ownership> decode_ownership(const std::string& text) {
  return read_json(Errc::corrupt, "the ownership map",
                   [&] { return ownership_from(json::parse(text)); });
}

}  // namespace tarn::cluster
