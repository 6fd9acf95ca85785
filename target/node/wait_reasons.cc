#include "target/node/wait_reasons.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace tarn::target {

const char* to_string(WaitReason::Why why) {
  switch (why) {
    case WaitReason::Why::waits_for_node: return "waits_for_node";
    case WaitReason::Why::waits_for_drive: return "waits_for_drive";
    case WaitReason::Why::no_room: return "no_room";
    case WaitReason::Why::too_few_slices: return "too_few_slices";
    case WaitReason::Why::failed: return "failed";
    case WaitReason::Why::limit: return "limit";
    case WaitReason::Why::clients: return "clients";
    case WaitReason::Why::stopped: return "stopped";
  }
  return "?";
}

WaitReason reason_of(HeldBy by) {
  switch (by) {
    case HeldBy::rebuild_max: return {WaitReason::Why::limit, "rebuild.bandwidth_max"};
    case HeldBy::all_moves: return {WaitReason::Why::limit, "rebalance.bandwidth"};
    case HeldBy::clients:
    case HeldBy::nothing: break;
  }
  return {WaitReason::Why::clients, ""};
}

void WaitReasons::add(WaitReason reason, std::uint64_t objects) {
  objects_[std::move(reason)] += objects;
}

void WaitReasons::add_failed(std::string where, std::string error, std::uint64_t objects) {
  if (error_.empty()) error_ = std::move(error);
  add({WaitReason::Why::failed, std::move(where)}, objects);
}

void WaitReasons::add(const WaitReasons& other) {
  for (const auto& [reason, objects] : other.objects_) add(reason, objects);
  if (error_.empty()) error_ = other.error_;
}

void to_json(nlohmann::json& out, const WaitReasons& reasons) {
  out = nlohmann::json::array();
  for (const auto& [reason, objects] : reasons.objects()) {
    nlohmann::json one{{"why", to_string(reason.why)}, {"objects", objects}};
    const bool is_limit = reason.why == WaitReason::Why::limit;
    if (!reason.where.empty()) one[is_limit ? "setting" : "node"] = reason.where;
    if (reason.why == WaitReason::Why::failed) one["error"] = reasons.error();
    out.push_back(std::move(one));
  }
}

}  // namespace tarn::target
