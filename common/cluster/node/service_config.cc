#include "common/cluster/node/service_config.h"

#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/settings.h"
#include "common/obs/log.h"

namespace tarn::cluster {

std::map<std::string, std::string> started_with(const http::ServiceSettings& settings) {
  return {{"log.level", settings.log_level},
          {"http.idle_timeout", duration_text(settings.limits.idle_timeout)},
          {"http.header_timeout", duration_text(settings.limits.header_timeout)},
          {"http.body_rate_min", size_text(settings.limits.rate_min)},
          {"http.body_rate_window", duration_text(settings.limits.rate_window)},
          {"shutdown.grace", duration_text(settings.shutdown_grace)}};
}

void act_on_service_settings(NodeConfig& config, const http::ServiceSettings& settings,
                             std::function<void(const http::ServiceSettings&)> changed) {
  struct Live {
    http::ServiceSettings now;
    Settings parsers;
    std::function<void(const http::ServiceSettings&)> changed;
  };
  const auto live = std::make_shared<Live>();
  live->now = settings;
  live->now.bind(live->parsers);
  live->changed = std::move(changed);
  for (const auto& [name, text] : started_with(settings)) {
    config.act_on(name, [live, key = name](const std::string& value) {
      const std::vector<std::string> assignment{fmt::format("{}={}", key, value)};
      if (const Status taken = live->parsers.apply(assignment); !taken) {
        obs::log("node").error("setting not taken {}", taken.error().message);
        return;
      }
      if (key == "log.level") static_cast<void>(obs::set_log_level(value));
      live->changed(live->now);
    });
  }
}

}  // namespace tarn::cluster
