#include "proxy/core/staleness.h"

#include <string>

namespace tarn::proxy {

Result<std::int64_t> stale_seconds(const Services& services, const http::RequestHead& head) {
  const std::int64_t seconds = services.membership.lease().stale_seconds();
  if (seconds != 0 && http::asks_for_fresh(head))
    return fail(Errc::unavailable,
                "the meta store has been out of reach for {} s, and no-cache asks for more",
                seconds);
  return seconds;
}

Status mark_staleness(const Services& services, const http::RequestHead& head,
                      http::Response& response) {
  TRY(const std::int64_t seconds, stale_seconds(services, head));
  if (seconds != 0) response.set("Tarn-Stale", std::to_string(seconds));
  return {};
}

}  // namespace tarn::proxy
