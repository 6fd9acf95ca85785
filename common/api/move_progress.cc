#include "common/api/move_progress.h"

#include <nlohmann/json.hpp>

namespace tarn::api {

using nlohmann::json;

void to_json(json& out, const MoveProgress& progress) {
  out = progress.counts;
  out["kind"] = progress.kind;
  out["map"] = progress.map_version;
  out["left_names"] = progress.left_names;
  out["left_bytes"] = progress.left_bytes;
  out["clean"] = progress.clean;
}

void from_json(const json& in, MoveProgress& progress) {
  in.get_to(progress.counts);
  in.at("kind").get_to(progress.kind);
  in.at("map").get_to(progress.map_version);
  in.at("left_names").get_to(progress.left_names);
  in.at("left_bytes").get_to(progress.left_bytes);
  in.at("clean").get_to(progress.clean);
}

}  // namespace tarn::api
