#include "cli/base/session.h"

#include <future>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include "common/api/status.h"
#include "common/base/encoding.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

constexpr int kRedirectsMax = 4;
constexpr std::size_t kRefusalBytesMax = 64U << 10U;
constexpr std::chrono::seconds kConnectLimit{5};
constexpr http::CallLimits kCallLimits{.connect = kConnectLimit, .total = std::chrono::seconds(30)};

bool is_redirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

Result<http::Url> location_of(const http::ClientResponse& answer, const http::Url& from) {
  const std::string_view location = answer.field("Location");
  if (!location.starts_with('/')) return http::parse_url(location);
  http::Url url = from;
  url.path = location;
  return url;
}

/// Names the address that did not answer, and the way to choose another one.
Error unreachable(const http::Url& endpoint, const Error& error) {
  return {error.code,
          fmt::format("no answer from http://{}: {}; is the cluster up there? Say where it is with "
                      "--endpoint URL or TARN_ENDPOINT",
                      endpoint.authority(), error.message)};
}

/// Message of a node without the half for people with curl: "make it with POST .., or with: tarn
/// bucket create b", "see .. with GET .., or with: tarn ls" and "PUT makes it (curl ..)".
std::string for_users_of_tarn(Errc code, std::string message) {
  constexpr std::string_view kTarnsWay = "or with: ";
  const auto advice = message.find("; ");
  if (advice == std::string::npos) return message;
  if (code == Errc::object_not_found) return message.substr(0, advice);
  const auto ours = message.find(kTarnsWay, advice);
  const bool is_about_bucket = code == Errc::bucket_not_found || code == Errc::remote_not_known;
  if (!is_about_bucket || ours == std::string::npos) return message;
  const auto what = message.substr(0, message.find(" with ", advice));
  return what + " with: " + message.substr(ours + kTarnsWay.size());
}

}  // namespace

Error error_of(const http::ClientResponse& answer) {
  const std::string_view in_head = answer.field("Hdr-Error");
  const std::string_view body = in_head.empty() ? std::string_view(answer.body) : in_head;
  const Errc code = api::errc_of_answer(answer.status, body);
  const std::string message(trim(api::error_message_of(body)));
  if (!message.empty()) return {code, for_users_of_tarn(code, message)};
  return {code, fmt::format("HTTP status {} {}", answer.status, api::reason_phrase(answer.status))};
}

Task<Error> refusal(Opened& refused) {
  std::string buffer(4096, '\0');
  std::string& body = refused.head.body;
  while (body.size() < kRefusalBytesMax) {
    const auto got = co_await refused.stream.read_some(std::as_writable_bytes(std::span(buffer)));
    if (!got || *got == 0) break;
    body.append(buffer, 0, *got);
  }
  co_return error_of(refused.head);
}

Result<std::unique_ptr<Session>> Session::open(const GlobalOptions& options) {
  std::string text = options.endpoint;
  if (text.find("://") == std::string::npos) text = "http://" + text;
  if (text.starts_with("https://"))
    return fail(Errc::unsupported, "endpoint '{}': TLS belongs to later work, use http://", text);
  TRY(http::Url endpoint, http::parse_url(text));
  if (endpoint.path != "/")
    return fail(Errc::invalid_argument, "endpoint '{}': only http://HOST:PORT, without a path",
                options.endpoint);
  TRY(const auto retry_for, parse_duration(options.retry_for.empty() ? "30s" : options.retry_for));
  return std::make_unique<Session>(std::move(endpoint), retry_for);
}

void Session::run_to_end(Task<void> task) {
  asio::co_spawn(loops_.at(0).executor(), std::move(task), asio::use_future).get();
}

void Session::run_workers(std::size_t count, const std::function<Task<void>(std::size_t)>& worker) {
  http::Loops loops(count);
  std::vector<std::future<void>> running;
  running.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    running.push_back(asio::co_spawn(loops.at(i).executor(), worker(i), asio::use_future));
  for (auto& each : running) each.wait();
  for (auto& each : running) each.get();
}

void Session::heard(Patience& patience, const http::ClientResponse& answer) {
  patience.heard(answer);
  heard_ = true;
}

Task<Result<http::ClientResponse>> Session::call(http::Method method, std::string target,
                                                 std::string body, bool* repeated) {
  Patience patience = this->patience();
  while (true) {
    http::ClientRequest request{method, target, {{"Accept", "application/json"}}, body};
    if (!body.empty()) request.fields.push_back({"Content-Type", "application/json"});
    auto answer = co_await client_.call(endpoint_, std::move(request), kCallLimits);
    if (answer) heard(patience, *answer);
    if (answer && answer->status < 400) co_return std::move(*answer);
    Error error = answer ? error_of(*answer) : answer.error();
    const bool again = co_await patience.again(error);
    if (again && repeated != nullptr) *repeated = true;
    if (again) continue;
    if (!patience.heard_anything()) error = unreachable(endpoint_, error);
    co_return fail(std::move(error));
  }
}

Task<Result<http::ClientResponse>> Session::ask_node(std::string node_url, std::string target,
                                                     std::chrono::milliseconds limit) {
  CO_TRY(const http::Url url, http::parse_url(node_url));
  http::ClientRequest request{http::Method::get, std::move(target), {}, {}};
  auto answer = co_await client_.call(url, std::move(request), {.connect = limit, .total = limit});
  co_return answer;
}

/// One request up to its answer, or up to 100 Continue.
Task<Result<Opened>> Session::open_at(http::Url url, http::ClientRequest request,
                                      std::optional<std::uint64_t> length,
                                      std::chrono::milliseconds stall) {
  const http::CallLimits limits{.connect = kConnectLimit, .stall = stall};
  CO_TRY(http::ClientStream stream,
         co_await client_.open(std::move(url), std::move(request), length, limits));
  CO_TRY(http::ClientResponse head, co_await stream.read_head());
  while (head.status < 200 && head.status != 100) {
    CO_TRY(head, co_await stream.read_head());
  }
  co_return Opened{std::move(stream), std::move(head)};
}

Task<Result<Opened>> Session::open(http::ClientRequest request, std::optional<std::uint64_t> length,
                                   Patience& patience, std::chrono::milliseconds stall) {
  http::Url at = endpoint_;
  for (int hop = 0; hop <= kRedirectsMax; ++hop) {
    auto opened = co_await open_at(at, request, length, stall);
    if (!opened && !patience.heard_anything()) co_return fail(unreachable(at, opened.error()));
    if (!opened) co_return opened;
    heard(patience, opened->head);
    if (opened->head.status >= 400) {
      Error refused = co_await refusal(*opened);
      co_return fail(std::move(refused));
    }
    if (!is_redirect(opened->head.status)) co_return opened;
    CO_TRY(at, location_of(opened->head, at));
    request.target = at.path;
  }
  co_return fail(Errc::io, "more than {} redirects, the last one to http://{}", kRedirectsMax,
                 at.authority());
}

}  // namespace tarn::cli
