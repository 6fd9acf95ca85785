#include "common/http/service_settings.h"

namespace tarn::http {

using namespace std::chrono_literals;

void ServiceSettings::bind(Settings& settings) {
  settings.duration("http.idle_timeout", limits.idle_timeout, 1s, 24h,
                    "how long a connection may wait between two requests");
  settings.duration("http.header_timeout", limits.header_timeout, 100ms, 1h,
                    "how long a request header may take from its first byte to its end (408)");
  settings.size("http.body_rate_min", limits.rate_min, 1, 1ULL << 30U,
                "bytes a second that a peer must take or send, or it is cut off");
  settings.duration("http.body_rate_window", limits.rate_window, 1s, 1h,
                    "how long that rate is measured over: a reader that pauses for longer, as in "
                    "an evaluation, is cut off");
  settings.duration("shutdown.grace", shutdown_grace, 0s, 1h,
                    "how long running transfers may go on after SIGTERM");
  settings.word("log.level", log_level, {"trace", "debug", "info", "warn", "error"},
                "the least important lines that are still logged");
}

}  // namespace tarn::http
