#include "cli/tools/wait_words.h"

#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/base/printing.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

/// "1 object waits", "12 objects wait".
std::string objects_do(const ordered_json& reason, const char* one, const char* many) {
  const auto objects = reason.at("objects").get<std::uint64_t>();
  return objects == 1 ? fmt::format("1 object {}", one)
                      : fmt::format("{} objects {}", objects, many);
}

/// "45s", "12m", "3h": one unit is enough for a person who waits.
std::string rough_time(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  if (seconds < 2 * kMinute) return fmt::format("{:.0f}s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{:.0f}m", seconds / kMinute);
  return fmt::format("{:.0f}h", seconds / kHour);
}

std::string node_text(const std::string& id) { return "t[" + id + "]"; }

/// "t[a], t[b]"
std::string targets_in(const ordered_json& reason) {
  std::string out;
  for (const auto& each : reason.at("targets"))
    out += (out.empty() ? "" : ", ") + node_text(each.get<std::string>());
  return out;
}

std::string node_wait(const ordered_json& reason) {
  const std::string node = node_text(reason.value("node", ""));
  const std::string start = objects_do(reason, "waits", "wait") + " for " + node;
  if (!reason.contains("down_seconds")) return start + ", which does not answer";
  return fmt::format("{}, which has been down for {}; it is out in {}", start,
                     rough_time(reason.at("down_seconds").get<double>()),
                     rough_time(reason.at("out_in_seconds").get<double>()));
}

/// Of work that goes on: the objects that are left, or what is read for other targets.
std::string held_text(const ordered_json& reason) {
  if (reason.at("objects") == 0) return "reads for other targets";
  return objects_do(reason, "is left", "are left");
}

std::string line_of(const ordered_json& reason) {
  const auto why = reason.at("why").get<std::string>();
  const std::string node = reason.value("node", "");
  if (why == "waits_for_node") return node_wait(reason);
  if (why == "waits_for_drive")
    return fmt::format(
        "{} for a drive of {} that may be back; it is given up for lost after a minute",
        objects_do(reason, "waits", "wait"), node_text(node));
  if (why == "no_room" && !node.empty())
    return fmt::format("{} no room at {}: add drives, or free some space",
                       objects_do(reason, "finds", "find"), node_text(node));
  if (why == "no_room")
    return fmt::format("{} no place: too few targets with a drive for each slice are up",
                       objects_do(reason, "finds", "find"));
  if (why == "too_few_slices")
    return fmt::format("{} too few slices to be made again: tarn redundancy names lost objects",
                       objects_do(reason, "has", "have"));
  if (why == "limit")
    return fmt::format("{} holds back {}: {}", reason.value("setting", "a limit"),
                       targets_in(reason), held_text(reason));
  if (why == "clients")
    return fmt::format("clients go first at {}, rebuild.bandwidth_min is kept: {}",
                       targets_in(reason), held_text(reason));
  if (why == "stopped")
    return fmt::format("stopped by an operator at {}: {}; tarn rebuild start goes on",
                       targets_in(reason), objects_do(reason, "is left", "are left"));
  const std::string at = node.empty() ? "" : " at " + node_text(node);
  return fmt::format("{}{}, and is tried again: {}", objects_do(reason, "failed", "failed"), at,
                     reason.value("error", why));
}

}  // namespace

std::vector<std::string> lines_of_waits(const ordered_json& waits) {
  std::vector<std::string> out;
  for (const auto& reason : waits) out.push_back(printable(line_of(reason)));
  return out;
}

}  // namespace tarn::cli
