#include "proxy/object/redirect.h"

#include <array>
#include <span>

#include "proxy/core/staleness.h"
#include "proxy/object/assign.h"
#include "proxy/object/relay.h"

namespace tarn::proxy {
namespace {

constexpr std::size_t kLineBytes = 384;  // most have 160

unsigned status_for(const Services& services, http::Method method) {
  if (access_of(method) == Access::read) return 302;
  // Python's requests and Go's net/http make a GET of a PUT that is answered 302, and lose the
  // upload.
  if (method == http::Method::put) return services.put_status.load(std::memory_order_relaxed);
  return 307;
}

/// For people whose client did not follow: `curl -T` without -L prints this and exits 0.
std::string readable_line(const Services& services, http::Method method, const Wanted& wanted,
                          const cluster::Node& target) {
  const bool is_put = method == http::Method::put;
  std::string line;
  line.reserve(kLineBytes);
  if (is_put) line += "NOTHING HAS BEEN STORED YET. ";
  line += wanted.bucket.display();
  line += '/';
  line += wanted.object;
  line += " is on target t[";
  line += target.id;
  line += is_put ? "]: follow the redirect (curl -L -T FILE URL), or use the relay listener "
                 : "]: follow the redirect (curl -L URL), or use the relay listener ";
  line += services.relay_url;
  line += '\n';
  return line;
}

/// The answer; bytes that the socket does not take now are left for Exchange::flush().
Status send_to_target(const Services& services, http::Exchange& exchange, const Wanted& wanted,
                      const Assignment& assignment) {
  const http::RequestHead& head = exchange.head();
  std::int64_t stale = 0;
  if (access_of(head.method) == Access::read) {
    TRY(stale, stale_seconds(services, head));
  }
  const std::string stale_text = std::to_string(stale);
  const std::array<http::ResponseView::FieldView, 4> fields{{{"Content-Type", http::kText},
                                                             {"Location", assignment.url},
                                                             {"Cache-Control", "no-store"},
                                                             {"Tarn-Stale", stale_text}}};
  const std::string line = readable_line(services, head.method, wanted, *assignment.target);
  http::ResponseView answer;
  answer.status = status_for(services, head.method);
  answer.fields = std::span(fields).first(stale == 0 ? 3 : 4);
  answer.body = line;
  exchange.respond_now(answer);
  services.redirects.Increment();
  return {};
}

}  // namespace

Task<Status> redirect_object(const Services& services, http::Request& request, std::string bucket,
                             std::string object) {
  if (!is_safe_to_redirect(request.head())) {
    const Status relayed =
        co_await relay_object(services, request, std::move(bucket), std::move(object));
    co_return relayed;
  }
  CO_TRY_OK(check_body_framing(request.head()));
  CO_TRY(const Wanted wanted, wanted_by(request, bucket, object));
  CO_TRY(const Assignment assignment,
         co_await assign(services, request, wanted, Passage::redirected));
  CO_TRY_OK(send_to_target(services, request.exchange, wanted, assignment));
  const Status sent = co_await request.exchange.flush();
  co_return sent;
}

bool redirect_at_once(const Services& services, http::Request& request, std::string_view bucket,
                      std::string_view object) {
  if (!is_safe_to_redirect(request.head()) || !check_body_framing(request.head())) return false;
  const auto wanted = wanted_by(request, bucket, object);
  if (!wanted) return false;
  const auto assignment = assign_at_once(services, request, *wanted, Passage::redirected);
  return assignment && send_to_target(services, request.exchange, *wanted, *assignment).has_value();
}

}  // namespace tarn::proxy
