#include "proxy/staleness.h"

#include <string>

#include "common/base/encoding.h"

namespace tarn::proxy {

Status mark_staleness(const Services& services, const http::RequestHead& head,
                      http::Response& response) {
  const std::int64_t seconds = services.membership.lease().stale_seconds();
  if (seconds == 0) return {};
  if (to_lower(head.field("Cache-Control")).find("no-cache") != std::string::npos)
    return fail(Errc::unavailable,
                "the meta store has been out of reach for {} s, and no-cache asks for more",
                seconds);
  response.set("Tarn-Stale", std::to_string(seconds));
  return {};
}

}  // namespace tarn::proxy
