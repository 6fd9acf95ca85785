#include "common/obs/log.h"

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink-inl.h>  // for a mutex that spdlog has not compiled it for
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "common/base/encoding.h"
#include "common/base/mutex.h"

namespace tarn::obs {
namespace {

/// Keeps the last lines in memory, so that a node can show its log wherever stderr leads.
class TailSink final : public spdlog::sinks::base_sink<Mutex> {
 public:
  LogTail text(spdlog::level::level_enum least, std::uint64_t offset) {
    const MutexLock lock(mutex_);
    LogTail out;
    out.begin = end_;
    std::uint64_t at = end_ - kept_;
    for (const Line& line : lines_) {
      if (at >= offset && line.level >= least) {
        out.begin = std::min(out.begin, at);
        out.text += line.text;
      }
      at += line.text.size();
    }
    return out;
  }

  void forget() {
    const MutexLock lock(mutex_);
    lines_.clear();
    kept_ = 0;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override TARN_REQUIRES(mutex_) {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    lines_.push_back({message.level, fmt::to_string(formatted)});
    kept_ += lines_.back().text.size();
    end_ += lines_.back().text.size();
    for (; kept_ > kLogKeptBytes; lines_.pop_front()) kept_ -= lines_.front().text.size();
  }
  void flush_() override {}

 private:
  struct Line {
    spdlog::level::level_enum level;
    std::string text;
  };
  std::deque<Line> lines_ TARN_GUARDED_BY(mutex_);
  std::size_t kept_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t end_ TARN_GUARDED_BY(mutex_) = 0;
};

/// The text of a message on one line, with any names in it.
class PrintableText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*when*/,
              spdlog::memory_buf_t& out) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const std::string line = printable(text);
    out.append(line.data(), line.data() + line.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableText>();
  }
};

/// "2026-01-31T12:00:00.000000Z info module message".
std::unique_ptr<spdlog::formatter> line_formatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<PrintableText>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%fZ %l %n %*");
  return formatter;
}

struct Loggers {
  Mutex mutex;
  std::shared_ptr<TailSink> tail = std::make_shared<TailSink>();
  std::shared_ptr<spdlog::sinks::sink> sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  std::map<std::string, std::shared_ptr<spdlog::logger>, std::less<>> by_module
      TARN_GUARDED_BY(mutex);
  spdlog::level::level_enum level TARN_GUARDED_BY(mutex) = spdlog::level::info;
};

Loggers& loggers() {
  static auto* instance = new Loggers;  // never destroyed: threads may log while the process exits
  return *instance;
}

}  // namespace

spdlog::logger& log(std::string_view module) {
  Loggers& all = loggers();
  const MutexLock lock(all.mutex);
  auto found = all.by_module.find(module);
  if (found == all.by_module.end()) {
    auto logger = std::make_shared<spdlog::logger>(std::string(module),
                                                   spdlog::sinks_init_list{all.sink, all.tail});
    logger->set_formatter(line_formatter());
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
  const MutexLock lock(all.mutex);
  all.level = parsed;
  for (auto& [name, logger] : all.by_module) logger->set_level(parsed);
  return {};
}

Result<std::string> parse_log_level(std::string_view text) {
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '5')
    return std::string(text[0] == '5' ? "trace" : text[0] == '4' ? "debug" : "info");
  for (const std::string_view word : {"trace", "debug", "info", "warn", "error"})
    if (text == word) return std::string(word);
  return fail(Errc::invalid_argument,
              "log level '{}' is none of trace, debug, info, warn, error, and no number from 0 to "
              "5",
              text);
}

Result<LogTail> log_tail(std::string_view severity, std::uint64_t offset) {
  auto least = spdlog::level::trace;
  if (severity.starts_with('w')) {
    least = spdlog::level::warn;
  } else if (severity.starts_with('e')) {
    least = spdlog::level::err;
  } else if (!severity.empty() && !severity.starts_with('i')) {
    return fail(Errc::invalid_argument, "severity '{}' is none of info, warning, error", severity);
  }
  return loggers().tail->text(least, offset);
}

void begin_log() { loggers().tail->forget(); }

bool LogLimiter::allow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::int64_t next = next_.load(std::memory_order_relaxed);
  return seconds >= next && next_.compare_exchange_strong(next, seconds + 1);
}

}  // namespace tarn::obs
