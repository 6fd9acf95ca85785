#include "proxy/redirect.h"

#include "proxy/assign.h"
#include "proxy/staleness.h"

namespace tarn::proxy {
namespace {

unsigned status_for(const Services& services, http::Method method) {
  if (access_of(method) == Access::read) return 302;
  // Python's requests and Go's net/http make a GET of a PUT that is answered 302, and lose the
  // upload.
  if (method == http::Method::put)
    return static_cast<unsigned>(services.options.redirect_put_status);
  return 307;
}

/// For people whose client did not follow: `curl -T` without -L prints this and exits 0.
std::string readable_line(const Services& services, http::Method method,
                          const Assignment& assignment) {
  const bool is_put = method == http::Method::put;
  return fmt::format(
      "{}{} is on target t[{}]: follow the redirect ({}), or use the relay listener {}\n",
      is_put ? "NOTHING HAS BEEN STORED YET. " : "", assignment.display, assignment.target->id,
      is_put ? "curl -L -T FILE URL" : "curl -L URL", services.relay_url);
}

}  // namespace

Task<Status> redirect_object(const Services& services, http::Request& request, std::string bucket,
                             std::string object) {
  const http::RequestHead& head = request.head();
  CO_TRY_OK(check_body_framing(head, Passage::redirected, services.relay_url));
  CO_TRY(const Assignment assignment, co_await assign(services, request, std::move(bucket),
                                                      std::move(object), Passage::redirected));

  http::Response response(status_for(services, head.method), http::kText,
                          readable_line(services, head.method, assignment));
  response.set("Location", assignment.target->public_url + assignment.path_and_query);
  response.set("Cache-Control", "no-store");
  if (access_of(head.method) == Access::read) CO_TRY_OK(mark_staleness(services, head, response));
  const Status sent = co_await request.exchange.respond(std::move(response));
  if (sent) services.redirects.Increment();
  co_return sent;
}

}  // namespace tarn::proxy
