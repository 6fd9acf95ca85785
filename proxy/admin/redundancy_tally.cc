#include "proxy/admin/redundancy_tally.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/base/read_json.h"

namespace tarn::proxy {

using nlohmann::json;

void Redundancy::survives(std::optional<std::uint64_t> drives, std::optional<std::uint64_t> nodes,
                          std::optional<std::uint64_t> zones) {
  survives_drives = api::lesser(survives_drives, drives);
  survives_nodes = api::lesser(survives_nodes, nodes);
  survives_zones = api::lesser(survives_zones, zones);
}

void Redundancy::judge(const std::function<bool(const std::set<std::string>&)>& shows_all) {
  std::set<std::string> blind;
  bool expected = false;
  for (const auto& [target, its] : uncounted) {
    counts.drives_away += its.drives;
    expected = expected || its.expected;
    if (its.unseen) blind.insert(target);
  }
  if (counts.drives_away > 0) all_seen = all_seen && !expected && shows_all(blind);
}

void to_json(json& out, const Redundancy& counted) {
  const auto number = [](const auto& count) { return count ? json(*count) : json(nullptr); };
  out = counted.counts;
  out["lost_names"] = counted.lost.names();
  out["lost_more"] = counted.lost.more();
  out["name"] = counted.bucket.name;
  out["provider"] = counted.bucket.provider;
  out["copies"] = counted.wanted;
  out["targets_away"] = counted.targets_away;
  out["survives_drives"] = number(counted.survives_drives);
  out["survives_nodes"] = number(counted.survives_nodes);
  if (counted.survives_zones) out["survives_zones"] = *counted.survives_zones;
  if (counted.coded) {
    out["coded"] = *counted.coded;
    out["unnamed_pieces"] = counted.unnamed.slices;
    out["unnamed_bytes"] = counted.unnamed.bytes;
    out["unjudged_pieces"] = counted.unjudged.slices;
    out["unjudged_bytes"] = counted.unjudged.bytes;
  }
  out["complete"] = counted.complete();
}

Status NamePage::take(const std::string& target, const std::string& body) {
  return read_json(Errc::internal, fmt::format("target t[{}]", target), [&]() -> Status {
    const json in = json::from_msgpack(body);
    const auto its = zones_.find(target);
    const std::string zone = its == zones_.end() ? "" : its->second;
    for (const json& record : in.at("records")) take_record(record, zone, !stops_.contains(target));
    if (in.contains("uncounted")) uncounted_[target].take(in.at("uncounted").get<api::Uncounted>());
    if (!in.at("more").get<bool>()) return {};
    const auto last = in.at("last").get<std::string>();
    if (!bound_ || last < *bound_) bound_ = last;
    return {};
  });
}

/// Older targets send neither the number of drives nor the size, nor the owner.
void NamePage::take_record(const json& record, const std::string& zone, bool stays) {
  constexpr std::size_t kDrivesAt = 3;
  constexpr std::size_t kBytesAt = 4;
  constexpr std::size_t kOwnerAt = 5;
  const json& numbers = record.at(1);
  const Generation generation{numbers.at(0), numbers.at(1), numbers.at(2)};
  Copies& copies = names_[record.at(0).get<std::string>()];
  if (copies.known && generation < copies.newest) return;
  if (copies.newest < generation) copies = {};
  copies.newest = generation;
  copies.live = !record.at(2).get_binary().empty();
  copies.known = true;
  const auto drives = record.size() > kDrivesAt ? record.at(kDrivesAt).get<std::uint64_t>() : 1;
  copies.drives += drives;
  if (drives > 0) {
    ++copies.nodes;
    copies.zones.insert(zone);
  }
  if (stays) copies.kept += drives;
  if (record.size() > kBytesAt) copies.bytes = record.at(kBytesAt).get<std::uint64_t>();
  if (record.size() <= kOwnerAt || record.at(kOwnerAt).get<bool>()) copies.at_owner = true;
}

std::string NamePage::last() const {
  if (bound_) return *bound_;
  return names_.empty() ? "" : names_.rbegin()->first;
}

void add_page(const NamePage& page, const api::SliceCounts& slices, Redundancy& into) {
  const std::string last = page.last();
  into.survives(slices.survives_drives, slices.survives_nodes, slices.survives_zones);
  const auto zones = [&page](std::uint64_t number) {
    return page.has_zones() ? std::optional(number) : std::nullopt;
  };
  if (into.coded) *into.coded += slices.objects;
  into.unnamed.add(slices.unnamed);
  into.unjudged.add(slices.unjudged);
  std::uint64_t away = 0;
  for (const auto& [target, its] : page.uncounted()) {
    into.uncounted[target].take(its);
    away += its.drives;
  }
  // A drive that failed between the two queries: its records were counted, its slices were not.
  if (slices.drives_away > away) into.all_seen = false;
  const auto list = [&into](const std::string& name, api::ObjectState state) {
    if (into.list) into.list->add(state, name);
  };
  for (const auto& [name, copies] : page.names()) {
    if (name > last) break;
    if (!copies.live) continue;
    if (copies.drives == 0) {  // its last copy is known to be bad
      into.survives(0, 0, zones(0));
      list(name, into.counts.add_lost(copies.bytes));
      into.lost.add(name);
      continue;
    }
    if (into.coded && away > 0 && !copies.at_owner) {
      into.survives(0, 0, zones(0));
      const std::uint64_t fewer = std::min(copies.drives, into.wanted - 1);
      list(name, into.counts.add_short(fewer, 0, false, copies.bytes));
      continue;
    }
    TARN_CHECK(copies.nodes > 0 && !copies.zones.empty());
    into.survives(copies.drives - 1, copies.nodes - 1, zones(copies.zones.size() - 1));
    const auto found = slices.incomplete.find(name);
    if (found == slices.incomplete.end()) {
      list(name, into.counts.add(copies.drives, into.wanted, copies.bytes));
      continue;
    }
    const api::SliceCounts::Short& its = found->second;
    list(name, into.counts.add_short(copies.drives, its.left, its.lost, copies.bytes));
    if (its.lost) into.lost.add(name);
  }
}

std::set<std::string> unreadable_names(const NamePage& page, bool coded,
                                       const api::SliceCounts& slices) {
  std::uint64_t away = 0;
  for (const auto& [target, its] : page.uncounted()) away += its.drives;
  const auto is_lost = [&](const std::string& name) {
    const auto its = slices.incomplete.find(name);
    return its != slices.incomplete.end() && its->second.lost;
  };
  std::set<std::string> out;
  const std::string last = page.last();
  for (const auto& [name, copies] : page.names()) {
    if (name > last) break;
    if (!copies.live || copies.drives == 0 || is_lost(name)) continue;
    const bool uncounted = coded && away > 0 && !copies.at_owner;
    const bool needs_slices = slices.unreadable && slices.unreadable->contains(name);
    if (copies.kept == 0 || uncounted || needs_slices) out.insert(name);
  }
  return out;
}

}  // namespace tarn::proxy
