#include "common/cluster/state/cluster_file.h"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"

namespace tarn::cluster {

using nlohmann::json;

std::string encode_cluster_file(const ClusterState& state) {
  json buckets = json::array();
  for (const auto& [name, bucket] : state.bmd.buckets) buckets.push_back(bucket);
  std::vector<std::uint64_t> dead;
  dead.reserve(state.bmd.dead.size());
  for (const BucketId bucket : state.bmd.dead) dead.push_back(raw(bucket));
  return json{{"uuid", state.uuid},
              {"revision", state.revision},
              {"map", state.map},
              {"bmd",
               {{"version", state.bmd.version},
                {"buckets", std::move(buckets)},
                {"dead", std::move(dead)}}},
              {"config", state.config}}
      .dump(1);
}

Result<ClusterState> decode_cluster_file(std::string_view text) {
  return read_json(Errc::corrupt, "not a cluster.json", [&] {
    const json in = json::parse(text);
    ClusterState out;
    in.at("uuid").get_to(out.uuid);
    out.revision = in.value("revision", std::int64_t{0});
    in.at("map").get_to(out.map);
    const json& bmd = in.at("bmd");
    bmd.at("version").get_to(out.bmd.version);
    for (const json& entry : bmd.at("buckets")) {
      auto bucket = entry.get<BucketRecord>();
      out.bmd.buckets[bucket.name] = std::move(bucket);
    }
    for (const json& id : bmd.at("dead")) out.bmd.dead.insert(BucketId{id.get<std::uint64_t>()});
    if (in.contains("config")) in["config"].get_to(out.config);
    return out;
  });
}

Status check_not_older(const ClusterState& seen, const ClusterState& state) {
  if (seen.uuid != state.uuid) return {};  // the drive's identity is compared elsewhere
  if (seen.map.version <= state.map.version && seen.bmd.version <= state.bmd.version) return {};
  return fail(
      Errc::conflict,
      "the meta store has map version {} and bucket metadata {}, this drive has seen {} and "
      "{}: the store was lost or put back to an older state. Bring back the newer one, or "
      "make it anew from the drives (tarn cluster recover)",
      state.map.version, state.bmd.version, seen.map.version, seen.bmd.version);
}

}  // namespace tarn::cluster
