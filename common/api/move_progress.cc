#include "common/api/move_progress.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace tarn::api {

using nlohmann::json;

namespace {

constexpr std::array<std::string_view, 4> kStates{"in_place", "waiting", "walking", "held"};

}  // namespace

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

std::string_view to_string(MoveReport::State state) {
  return kStates[static_cast<std::size_t>(state)];
}

std::optional<double> MoveReport::seconds_left() const {
  if (state == State::in_place) return 0;
  if (state != State::walking || rate == 0) return std::nullopt;
  return static_cast<double>(walk.left_bytes) / static_cast<double>(rate);
}

void to_json(json& out, const MoveReport& report) {
  const auto left = report.seconds_left();
  out = {{"map", report.map_version},
         {"state", to_string(report.state)},
         {"walk", report.walk},
         {"started_ns", report.started_ns},
         {"ended_ns", report.ended_ns},
         {"rate", report.rate},
         {"seconds_left", left ? json(*left) : json()}};
}

void from_json(const json& in, MoveReport& report) {
  in.at("map").get_to(report.map_version);
  const auto state = std::find(kStates.begin(), kStates.end(), in.at("state").get<std::string>());
  if (state == kStates.end()) throw std::invalid_argument("unknown state of a rebalance");
  report.state = static_cast<MoveReport::State>(state - kStates.begin());
  in.at("walk").get_to(report.walk);
  in.at("started_ns").get_to(report.started_ns);
  in.at("ended_ns").get_to(report.ended_ns);
  in.at("rate").get_to(report.rate);
}

}  // namespace tarn::api
