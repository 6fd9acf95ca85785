#include "common/obs/log.h"

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tarn::obs {
namespace {

struct Loggers {
  std::mutex mutex;
  std::shared_ptr<spdlog::sinks::sink> sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  std::map<std::string, std::shared_ptr<spdlog::logger>, std::less<>> by_module;
  spdlog::level::level_enum level = spdlog::level::info;
};

Loggers& loggers() {
  static auto* instance = new Loggers;  // never destroyed: threads may log while the process exits
  return *instance;
}

}  // namespace

spdlog::logger& log(std::string_view module) {
  Loggers& all = loggers();
  const std::lock_guard lock(all.mutex);
  auto found = all.by_module.find(module);
  if (found == all.by_module.end()) {
    auto logger = std::make_shared<spdlog::logger>(std::string(module), all.sink);
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%fZ %l %n %v", spdlog::pattern_time_type::utc);
    logger->set_level(all.level);
    logger->flush_on(spdlog::level::trace);
    found = all.by_module.emplace(std::string(module), std::move(logger)).first;
  }
  return *found->second;
}

Status set_log_level(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off")
    return fail(Errc::invalid_argument,
                "log level '{}' is none of trace, debug, info, warn, error, off", level);
  Loggers& all = loggers();
  const std::lock_guard lock(all.mutex);
  all.level = parsed;
  for (auto& [name, logger] : all.by_module) logger->set_level(parsed);
  return {};
}

bool LogLimiter::allow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::int64_t next = next_.load(std::memory_order_relaxed);
  return seconds >= next && next_.compare_exchange_strong(next, seconds + 1);
}

}  // namespace tarn::obs
