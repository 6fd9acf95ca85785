#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include <spdlog/logger.h>

#include "common/base/error.h"

namespace tarn::obs {

/// The logger of a module ("http", "target", ...): lines on stderr of the form
/// `2026-11-21T10:11:12.123456Z info target put done req=.. bucket=..`. A short verb phrase, then
/// key=value. Thread-safe; made at the first call.
[[nodiscard]] spdlog::logger& log(std::string_view module);

/// Sets the level of all modules: trace, debug, info, warn, error. invalid_argument for other
/// words.
Status set_log_level(std::string_view level);

/// True at most once a second for each call site: for lines that a client can cause.
class LogLimiter {
 public:
  [[nodiscard]] bool allow();

 private:
  std::atomic<std::int64_t> next_{0};
};

}  // namespace tarn::obs
