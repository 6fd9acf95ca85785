#include "common/cluster/admin/node_report.h"

#include <algorithm>
#include <ctime>
#include <map>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

namespace tarn::cluster {
namespace {

using nlohmann::json;

struct FileSystems {
  std::uint64_t used = 0;
  std::uint64_t available = 0;
  [[nodiscard]] std::uint64_t total() const { return used + available; }
};

std::uint64_t percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : part * 100 / whole;
}

/// The usable drives' file systems, each once.
FileSystems sum(const std::vector<DriveReport>& drives) {
  std::map<std::string, const DriveReport*> by_id;
  for (const DriveReport& drive : drives)
    if (drive.usable) by_id[drive.mount.id.empty() ? drive.path : drive.mount.id] = &drive;
  FileSystems out;
  for (const auto& [id, drive] : by_id) {
    out.used += drive->used;
    out.available += drive->available;
  }
  return out;
}

/// "2026-08-21 10:11:12"; empty for never.
std::string time_text(std::int64_t unix_ns) {
  if (unix_ns == 0) return "";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                     fmt::gmtime(static_cast<std::time_t>(unix_ns / 1'000'000'000)));
}

}  // namespace

std::uint64_t state_flags(const std::vector<DriveReport>& drives) {
  std::uint64_t flags = kFlagsHealthy;
  for (const DriveReport& drive : drives) {
    if (!drive.usable && !drive.disabled && !drive.leaving) flags |= kFlagDiskFault;
    if (drive.usable && drive.low) flags |= kFlagLowCapacity;
  }
  const bool is_full = !drives.empty() && std::all_of(drives.begin(), drives.end(), [](auto& each) {
    return !each.usable || each.full;
  });
  return is_full ? flags | kFlagOutOfSpace : flags;
}

json mountpaths_json(const std::vector<DriveReport>& drives) {
  json out{
      {"available", json::array()}, {"waiting_dd", json::array()}, {"disabled", json::array()}};
  for (const DriveReport& drive : drives)
    out[drive.leaving  ? "waiting_dd"
        : drive.usable ? "available"
                       : "disabled"]
        .push_back(drive.path);
  for (const DriveReport& drive : drives) {
    if (!drive.state.empty()) out["states"][drive.path] = drive.state;
    if (!drive.note.empty()) out["notes"][drive.path] = drive.note;
    if (!drive.errors.empty()) out["errors"][drive.path] = drive.errors;
  }
  return out;
}

json capacity_json(const std::vector<DriveReport>& drives) {
  json paths = json::object();
  std::uint64_t least = 100;
  std::uint64_t most = 0;
  std::uint64_t all = 0;
  std::uint64_t count = 0;
  std::string broken;
  for (const DriveReport& drive : drives) {
    if (drive.disabled || drive.leaving) continue;
    if (!drive.usable) {
      broken += (broken.empty() ? "drives out of use: " : ", ") + drive.path;
      continue;
    }
    const auto used = percent(drive.used, drive.used + drive.available);
    paths[drive.path] = {
        {"mountpath_label", drive.label},
        {"fs",
         {{"Fs", drive.mount.device}, {"FsType", drive.mount.type}, {"FsID", drive.mount.id}}},
        {"disks", drive.mount.disk.empty() ? json::array() : json::array({drive.mount.disk})},
        {"used", std::to_string(drive.used)},
        {"avail", std::to_string(drive.available)},
        {"pct_used", used}};
    least = std::min(least, used);
    most = std::max(most, used);
    all += used;
    ++count;
  }
  const FileSystems total = sum(drives);
  return {{"mountpaths", std::move(paths)},
          {"cs_err", broken},
          {"total_used", std::to_string(total.used)},
          {"total_avail", std::to_string(total.available)},
          {"pct_max", most},
          {"pct_avg", count == 0 ? 0 : all / count},
          {"pct_min", count == 0 ? 0 : least}};
}

json file_systems_json(const std::vector<DriveReport>& drives) {
  const FileSystems total = sum(drives);
  const double used = total.total() == 0 ? 0.0
                                         : 100.0 * static_cast<double>(total.used) /
                                               static_cast<double>(total.total());
  return {{"fs_used", std::to_string(total.used)},
          {"fs_capacity", std::to_string(total.total())},
          {"pct_fs_used", used}};
}

json cluster_info_json(const ClusterState& state, std::uint64_t flags) {
  json primary{{"pub_url", ""}, {"control_url", ""}, {"id", state.map.primary}};
  if (const Node* node = state.map.find(state.map.primary)) {
    primary["pub_url"] = node->public_url;
    primary["control_url"] = node->internal_url;
  }
  return {{"smap",
           {{"Primary", std::move(primary)},
            {"uuid", state.map.uuid},
            {"version", std::to_string(state.map.version)}}},
          {"bmd", {{"uuid", state.uuid}, {"version", std::to_string(state.bmd.version)}}},
          {"rmd", {{"version", "0"}}},
          {"config", {{"version", "1"}}},
          {"etlmd", {{"version", "0"}}},
          {"flags", flags}};
}

json sys_info_json(const NodeStats& stats) {
  const auto memory = obs::read_memory();
  const auto process = obs::read_process();
  const auto load = obs::read_load_average();
  const auto cpu = stats.cpu();
  const double memory_percent = memory.total == 0 ? 0.0
                                                  : 100.0 * static_cast<double>(process.resident) /
                                                        static_cast<double>(memory.total);
  return {
      {"mem_used", process.resident},
      {"mem_avail", memory.available},
      {"pct_mem_used", memory_percent},
      {"pct_cpu_used", cpu.process_percent},
      {"load_avg", {{"One", load.one}, {"Five", load.five}, {"Fifteen", load.fifteen}}},
      {"cpu_util", static_cast<std::int64_t>(cpu.machine_percent)},
      {"mem",
       {{"Total", memory.total},
        {"Used", memory.total - memory.free},
        {"Free", memory.free},
        {"BuffCache", memory.buffers_and_cache},
        {"ActualFree", memory.available},
        {"ActualUsed", memory.total - memory.available},
        {"SwapTotal", memory.swap_total},
        {"SwapFree", memory.swap_free},
        {"SwapUsed", memory.swap_total - memory.swap_free}}},
      {"proc",
       {{"CPU",
         {{"User", process.user_ms},
          {"System", process.system_ms},
          {"Total", process.user_ms + process.system_ms},
          {"LastTime", 0},
          {"Percent", cpu.process_percent}}},
        {"Mem",
         {{"Size", process.size}, {"Resident", process.resident}, {"Share", process.shared}}}}}};
}

json cluster_config_json(const ClusterState& state, const ConfigValues& values) {
  const Node* primary = state.map.find(state.map.primary);
  const std::string url = primary == nullptr ? "" : primary->public_url;
  json out{{"uuid", state.uuid},
           {"config_version", std::to_string(state.config.version)},
           {"lastupdate_time", time_text(state.config.changed_ns)},
           {"features", "0"},
           {"ext", nullptr},
           {"auth", {{"client_auth_required", false}}},
           {"backend", json::object()},
           {"proxy",
            {{"primary_url", url},
             {"original_url", url},
             {"discovery_url", ""},
             {"non_electable", false}}},
           {"net",
            {{"l4", {{"proto", "tcp"}, {"sndrcv_buf_size", 0}}},
             {"http", {{"use_https", false}, {"chunked_transfer", true}, {"skip_verify", false}}},
             {"use_ipv6", false}}},
           {"log", {{"to_stderr", true}}},
           {"periodic", {{"stats_time", "10s"}}},
           // Leases: 4 s long, renewed every second.
           {"keepalivetracker",
            {{"proxy", {{"name", "heartbeat"}, {"interval", "1s"}, {"factor", 4}}},
             {"target", {{"name", "heartbeat"}, {"interval", "1s"}, {"factor", 4}}}}}};
  put_config(values, out);
  return out;
}

}  // namespace tarn::cluster
