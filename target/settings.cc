#include "target/settings.h"

#include <memory>

#include "common/base/encoding.h"
#include "common/base/settings.h"
#include "common/cluster/node/service_config.h"

namespace tarn::target {

std::map<std::string, std::string> started_with(const Options& options) {
  auto out = cluster::started_with(options.service);
  out["space.lowwm"] = std::to_string(options.low_watermark);
  out["space.highwm"] = std::to_string(options.high_watermark);
  out["space.out_of_space"] = std::to_string(options.out_of_space);
  out["space.reserve"] = options.space.reserve_bytes != 0
                             ? size_text(options.space.reserve_bytes)
                             : fmt::format("{:.0f}%", options.space.reserve_percent);
  out["checksum.verify"] = options.checksum_verify;
  out["append.timeout"] = duration_text(options.append_timeout);
  out["rebalance.enabled"] = options.rebalance_enabled;
  out["resilver.enabled"] = options.resilver_enabled;
  out["rebalance.bandwidth"] = size_text(options.rebalance_bandwidth);
  out["rebalance.workers"] = std::to_string(options.rebalance_workers);
  out["rebuild.bandwidth_min"] = size_text(options.rebuild_bandwidth_min);
  out["rebuild.bandwidth_max"] = size_text(options.rebuild_bandwidth_max);
  out["scrub.period"] = duration_text(options.scrub_period);
  out["scrub.bandwidth"] = size_text(options.scrub_bandwidth);
  return out;
}

void act_on_settings(cluster::NodeConfig& config, const Options& options, TargetNode& node) {
  const auto limits = std::make_shared<SpaceLimits>(options.limits());
  const auto act_on_space = [&](const char* name, auto take) {
    config.act_on(name, [limits, take, &store = node.store](const std::string& text) {
      take(*limits, text);
      store.set_space_limits(*limits);
    });
  };
  act_on_space("space.lowwm", [](SpaceLimits& its, const std::string& text) {
    its.low_watermark = static_cast<double>(parse_u64(text).value_or(0));
  });
  act_on_space("space.highwm", [](SpaceLimits& its, const std::string& text) {
    its.high_watermark = static_cast<double>(parse_u64(text).value_or(0));
  });
  act_on_space("space.out_of_space", [](SpaceLimits& its, const std::string& text) {
    its.out_of_space = static_cast<double>(parse_u64(text).value_or(0));
  });
  act_on_space("space.reserve", [](SpaceLimits& its, const std::string& text) {
    static_cast<void>(parse_reserve(text, its));  // checked when it was set
  });
  config.act_on("checksum.verify",
                [&node](const std::string& text) { node.verify_always = text == "always"; });
  node.handoff.enabled = options.rebalance_enabled == "true";
  node.resilver.enabled = options.resilver_enabled == "true";
  node.moves.limits.rate.set(options.rebalance_bandwidth);
  node.moves.limits.workers = options.rebalance_workers;
  config.act_on("rebalance.enabled",
                [&node](const std::string& text) { node.handoff.enabled = text == "true"; });
  config.act_on("resilver.enabled",
                [&node](const std::string& text) { node.resilver.enabled = text == "true"; });
  config.act_on("rebalance.bandwidth", [&node](const std::string& text) {
    if (const auto bytes = parse_size(text)) node.moves.limits.rate.set(*bytes);
  });
  config.act_on("rebalance.workers", [&node](const std::string& text) {
    node.moves.limits.workers = parse_u64(text).value_or(0);
  });
  node.moves.limits.rebuild_min_of_drive = options.rebuild_bandwidth_min;
  node.moves.limits.rebuild_max.set(options.rebuild_bandwidth_max);
  node.scrub.period = options.scrub_period;
  node.scrub.rate.set(options.scrub_bandwidth);
  config.act_on("rebuild.bandwidth_min", [&node](const std::string& text) {
    if (const auto bytes = parse_size(text)) node.moves.limits.rebuild_min_of_drive = *bytes;
  });
  config.act_on("rebuild.bandwidth_max", [&node](const std::string& text) {
    if (const auto bytes = parse_size(text)) node.moves.limits.rebuild_max.set(*bytes);
  });
  config.act_on("scrub.period", [&node](const std::string& text) {
    if (const auto time = parse_duration(text)) node.scrub.period = *time;
  });
  config.act_on("scrub.bandwidth", [&node](const std::string& text) {
    if (const auto bytes = parse_size(text)) node.scrub.rate.set(*bytes);
  });
  config.act_on("append.timeout", [&node](const std::string& text) {
    if (const auto time = parse_duration(text)) node.append_timeout = *time;
  });
}

}  // namespace tarn::target
