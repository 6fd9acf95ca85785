#pragma once

#include <chrono>
#include <string>

#include "common/base/settings.h"
#include "common/http/server.h"

namespace tarn::http {

/// Settings of HTTP serving that proxy and target share.
struct ServiceSettings {
  Limits limits;
  std::chrono::milliseconds shutdown_grace{30'000};  ///< for running transfers, at SIGTERM
  std::string log_level = "info";

  /// Binds the keys http.*, shutdown.grace and log.level. `this` must outlive `settings`.
  void bind(Settings& settings);
};

}  // namespace tarn::http
