#include "common/api/slice_counts.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"

namespace tarn::api {
namespace {

using nlohmann::json;

json json_of(const std::optional<std::uint64_t>& number) {
  return number ? json(*number) : json(nullptr);
}

std::optional<std::uint64_t> number_in(const json& in) {
  if (in.is_null()) return std::nullopt;
  return in.get<std::uint64_t>();
}

json sum_json(const SliceSum& sum) { return {sum.slices, sum.bytes}; }

/// Older targets did not send them.
SliceSum sum_in(const json& in, const char* key) {
  const auto its = in.find(key);
  if (its == in.end()) return {};
  return {its->at(0).get<std::uint64_t>(), its->at(1).get<std::uint64_t>()};
}

}  // namespace

void SliceSum::add(const SliceSum& other) {
  slices += other.slices;
  bytes += other.bytes;
}

std::optional<std::uint64_t> lesser(const std::optional<std::uint64_t>& a,
                                    const std::optional<std::uint64_t>& b) {
  if (a && b) return std::min(*a, *b);
  return a ? a : b;
}

void SliceCounts::add(const SliceCounts& other) {
  objects += other.objects;
  incomplete.insert(other.incomplete.begin(), other.incomplete.end());
  survives_drives = lesser(survives_drives, other.survives_drives);
  survives_nodes = lesser(survives_nodes, other.survives_nodes);
  survives_zones = lesser(survives_zones, other.survives_zones);
  drives_away += other.drives_away;
  unnamed.add(other.unnamed);
  unjudged.add(other.unjudged);
  if (!other.unreadable) return;
  if (!unreadable) unreadable.emplace();
  unreadable->insert(other.unreadable->begin(), other.unreadable->end());
}

std::string encode(const SliceCounts& counts) {
  json incomplete = json::array();
  for (const auto& [name, each] : counts.incomplete)
    incomplete.push_back(json::array({name, each.left, each.waiting, each.lost}));
  json out{{"objects", counts.objects},
           {"incomplete", std::move(incomplete)},
           {"survives_drives", json_of(counts.survives_drives)},
           {"survives_nodes", json_of(counts.survives_nodes)},
           {"survives_zones", json_of(counts.survives_zones)},
           {"drives_away", counts.drives_away},
           {"unnamed", sum_json(counts.unnamed)},
           {"unjudged", sum_json(counts.unjudged)}};
  if (counts.unreadable) out["unreadable"] = *counts.unreadable;
  std::string text;
  json::to_msgpack(out, text);
  return text;
}

Result<SliceCounts> slice_counts_from(std::string_view text) {
  return read_json(Errc::corrupt, "counts of slices", [&]() -> Result<SliceCounts> {
    const json in = json::from_msgpack(text);
    SliceCounts out;
    out.objects = in.at("objects");
    for (const json& each : in.at("incomplete"))
      out.incomplete[each.at(0)] = {each.at(1), each.at(2), each.at(3)};
    out.survives_drives = number_in(in.at("survives_drives"));
    out.survives_nodes = number_in(in.at("survives_nodes"));
    out.survives_zones = number_in(in.value("survives_zones", json()));
    out.drives_away = in.value("drives_away", std::uint64_t{0});
    out.unnamed = sum_in(in, "unnamed");
    out.unjudged = sum_in(in, "unjudged");
    if (const auto its = in.find("unreadable"); its != in.end())
      out.unreadable = its->get<std::set<std::string>>();
    return out;
  });
}

std::set<std::string> ids_in(std::string_view list) {
  std::set<std::string> out;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) out.emplace(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return out;
}

}  // namespace tarn::api
