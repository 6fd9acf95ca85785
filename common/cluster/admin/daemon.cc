#include "common/cluster/admin/daemon.h"

#include <ctime>
#include <filesystem>
#include <sys/stat.h>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "common/base/archive.h"
#include "common/base/encoding.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

using http::Response;
using nlohmann::json;

constexpr std::string_view kKnown =
    "smap, bmd, snode, config, node_stats, node_status, sysinfo, metrics, log, mountpaths, disk, "
    "software_version, tls_certificate, remote";

/// Time at which the running program was written to disk: the closest to that of its build.
std::string build_time() {
  struct ::stat info{};
  if (::stat("/proc/self/exe", &info) != 0) return "";
  return fmt::format("{:%Y-%m-%dT%H:%M:%S+0000}", fmt::gmtime(info.st_mtime));
}

json bmd_json(const ClusterState& state) {
  json bmd = aistore_json(state.bmd);
  bmd["uuid"] = state.uuid;
  return bmd;
}

std::chrono::nanoseconds uptime(const NodeContext& context) {
  return context.clock.boot_time() - context.started;
}

json config_json(const NodeContext& context, const ClusterState& state) {
  json out = cluster_config_json(state, context.config.values());
  const json self = aistore_json(context.membership.self());
  const auto& net = self.at("public_net");
  const auto& internal = self.at("intra_control_net");
  out["confdir"] = "";
  out["log_dir"] = "";  // the log goes to stderr; what=log has its end
  json paths = json::object();
  for (const DriveReport& drive : context.drive_reports()) paths[drive.path] = drive.label;
  out["fspaths"] = std::move(paths);
  out["test_fspaths"] = {{"root", ""}, {"count", 0}, {"instance", 0}};
  out["host_net"] = {{"hostname", net.at("node_ip_addr")},
                     {"hostname_intra_control", internal.at("node_ip_addr")},
                     {"hostname_intra_data", internal.at("node_ip_addr")},
                     {"port", net.at("daemon_port")},
                     {"port_intra_control", internal.at("daemon_port")},
                     {"port_intra_data", internal.at("daemon_port")}};
  return out;
}

Result<Response> log_answer(const NodeContext& context, const api::Query& query) {
  std::uint64_t offset = 0;
  if (const auto text = query.get("offset"); !text.empty()) {
    const auto parsed = parse_u64(text);
    if (!parsed) return fail(Errc::invalid_argument, "offset={} is no number of bytes", text);
    offset = *parsed;
  }
  TRY(const bool all, query.flag("all"));
  TRY(const obs::LogTail tail, obs::log_tail(query.get("severity"), offset));
  if (!all) return Response(200, http::kText, tail.text);
  const std::string name = context.membership.self().id + ".log";
  const auto now = static_cast<std::int64_t>(context.clock.wall_time().count() / 1'000'000'000);
  return Response(200, "application/x-gzip", gzip(tar_of(name, tail.text, now)));
}

Status needs_drives(const NodeContext& context, std::string_view what) {
  if (context.drives) return {};
  return fail(Errc::invalid_argument, "what={} is known by targets only: this is a proxy", what);
}

}  // namespace

Response json_response(const json& value) {
  return {200, http::kJson, value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}

json node_status_json(const NodeContext& context, bool whole) {
  const auto state = context.view.state();
  const auto drives = context.drive_reports();
  const auto flags = state_flags(drives);
  json tracker = context.stats.tracker(uptime(context));
  tracker["state.flags"] = flags;
  json out{{"snode", aistore_json(context.membership.self())},
           {"tracker", std::move(tracker)},
           {"capacity", capacity_json(drives)}};
  if (!whole) return out;
  out["status"] = "";
  out["deployment"] = "linux";
  out["ais_version"] = kAistoreVersion;
  out["build_time"] = build_time();
  out["k8s_pod_name"] = "";
  out["smap_version"] = std::to_string(state->map.version);
  out["cluster"] = cluster_info_json(*state, flags);
  out["sys_info"] = sys_info_json(context.stats);
  return out;
}

Result<Response> answer_daemon(const NodeContext& context, const api::Query& query) {
  const auto what = query.get("what");
  const auto state = context.view.state();
  if (what == "smap") return json_response(aistore_json(state->map));
  if (what == "bmd") return json_response(bmd_json(*state));
  if (what == "snode") return json_response(aistore_json(context.membership.self()));
  if (what == "config") return json_response(config_json(context, *state));
  if (what == "node_stats") return json_response(node_status_json(context, false));
  if (what == "node_status") return json_response(node_status_json(context, true));
  if (what == "metrics") return json_response(context.stats.kinds());
  if (what == "log") return log_answer(context, query);
  if (what == "software_version") return Response(200, http::kText, std::string(kAistoreVersion));
  if (what == "remote") return json_response({{"a", json::array()}, {"ver", 0}});
  if (what == "sysinfo") {
    json out = sys_info_json(context.stats);
    if (context.drives) out.update(file_systems_json(context.drive_reports()));
    return json_response(out);
  }
  if (what == "mountpaths") {
    TRY_OK(needs_drives(context, what));
    return json_response(mountpaths_json(context.drive_reports()));
  }
  if (what == "disk") {
    TRY_OK(needs_drives(context, what));
    json out = capacity_json(context.drive_reports());
    out["AllDiskStats"] = context.stats.disks();
    return json_response(out);
  }
  if (what == "tls_certificate")
    return fail(Errc::not_found, "this node has no TLS certificate: it serves plain HTTP");
  return fail(Errc::invalid_argument, "what={} is not known here: known are {}", what, kKnown);
}

}  // namespace tarn::cluster
