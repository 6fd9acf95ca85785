#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
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

/// AIStore's numbers and our words as a word: "0" to "3" are info, "4" is debug, "5" is trace.
/// invalid_argument for all else.
[[nodiscard]] Result<std::string> parse_log_level(std::string_view text);

/// The last lines that were logged, at most kLogKeptBytes of them, of this and worse levels:
/// "info", "warning" ("warn", "w") or "error" (by first letter, as AIStore). Lines that begin
/// before `offset` (bytes since the start) are left out. invalid_argument for another word.
struct LogTail {
  std::string text;
  std::uint64_t begin = 0;  ///< offset of the first line kept
};
[[nodiscard]] Result<LogTail> log_tail(std::string_view severity, std::uint64_t offset = 0);
inline constexpr std::size_t kLogKeptBytes = 1U << 20U;
/// Forgets the lines that log_tail() has; offsets go on to count. Lines that went to stderr stay
/// there.
void begin_log();

/// True at most once a second for each call site: for lines that a client can cause.
class LogLimiter {
 public:
  [[nodiscard]] bool allow();

 private:
  std::atomic<std::int64_t> next_{0};
};

}  // namespace tarn::obs
