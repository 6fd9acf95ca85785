#include "target/upstream/upstream.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "common/base/backoff.h"
#include "common/base/buffer_pool.h"
#include "common/base/encoding.h"
#include "common/base/pause.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kTriesMax = 4;                              // for a bucket that sets no number
constexpr std::chrono::milliseconds kUpstreamPauseFirst{200};  // doubled with each try
constexpr unsigned kDoublingsMax = 6;
constexpr std::size_t kRefusalBytesMax = 64U << 10U;
constexpr std::size_t kListBytesMax = 16U << 20U;
constexpr std::chrono::seconds kUpstreamConnectMost{5};

unsigned tries_of(const UpstreamServer& server) {
  return server.rate.enabled ? server.rate.retries + 1 : kTriesMax;
}

/// Waits before a try that is not the first one.
Task<void> pause_before_try(unsigned attempt) {
  co_await pause(with_jitter(kUpstreamPauseFirst * (1U << std::min(attempt, kDoublingsMax))));
}

/// The rest of a body, as far as it is of use.
Task<Result<std::string>> read_rest(http::ClientStream& stream, std::size_t bytes_max) {
  std::string out;
  std::array<std::byte, 16U << 10U> buffer{};
  while (true) {
    CO_TRY(const std::size_t got, co_await stream.read_some(buffer));
    if (got == 0) co_return out;
    if (out.size() + got > bytes_max)
      co_return fail(Errc::bad_upstream, "an answer of more than {} bytes", bytes_max);
    out.append(reinterpret_cast<const char*>(buffer.data()), got);
  }
}

/// True if the server did what it could: a refusal of this request is an answer, too.
bool is_answered(const Result<http::ClientResponse>& answer) {
  return answer && answer->status < 500;
}

/// False for what stays as it is: a request that cannot be sent, a certificate that is refused.
bool is_tried_again(Errc why) {
  return why != Errc::invalid_argument && why != Errc::unauthenticated && why != Errc::cancelled;
}

bool is_redirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// The URL that a Location names, seen from `url`: whole, "//host/path", "/path" or "file".
Result<http::Url> url_of_redirect(const http::Url& url, std::string_view location) {
  location = location.substr(0, location.find('#'));
  const std::string scheme = url.tls ? "https:" : "http:";
  const auto colon = location.find(':');
  if (colon < location.find_first_of("/?")) return http::parse_http_or_https(location);
  if (location.starts_with("//")) return http::parse_http_or_https(scheme + std::string(location));
  const std::string base = url.path.substr(0, url.path.find('?'));
  std::string path(location);
  if (!path.starts_with('/'))
    path = path.starts_with('?') ? base + path : base.substr(0, base.rfind('/') + 1) + path;
  return http::parse_http_or_https(fmt::format("{}//{}{}", scheme, url.authority(), path));
}

Error refused_by_gate(std::string_view about, const UpstreamServer& server, const Error& why) {
  return {why.code, fmt::format("{}: {} is not asked: {}", about, server.display(), why.message)};
}

}  // namespace

Upstream::Upstream(UpstreamServers servers, Clock& clock,
                   std::shared_ptr<const http::TlsContext> tls, std::size_t connections,
                   std::chrono::milliseconds silence, std::function<std::size_t()> targets)
    : servers_(std::move(servers)),
      clock_(clock),
      client_(std::move(tls)),
      call_limits_{.connect = kUpstreamConnectMost, .stall = silence},
      gates_(connections, clock),
      limits_(clock, std::move(targets)) {}

Task<void> Upstream::fetch_credentials() {
  if (const auto role = servers_.role()) static_cast<void>(co_await role->renew(client_));
}

Task<void> Upstream::keep_credentials() {
  if (const auto role = servers_.role()) co_await role->keep(client_);
}

std::int64_t Upstream::now() const { return clock_.wall_time().count() / 1'000'000'000; }

Task<Result<Upstream::Answer>> Upstream::try_once(const UpstreamServer& server,
                                                  http::ClientRequest request) {
  ++counts_.requests;
  CO_TRY(http::ClientStream stream,
         co_await client_.open(server.url, std::move(request), std::nullopt, call_limits_));
  CO_TRY(http::ClientResponse head, co_await stream.read_head());
  co_return Answer{std::move(head), std::move(stream), std::nullopt};
}

Task<Result<http::ClientResponse>> Upstream::try_change(
    const UpstreamServer& server, http::ClientRequest request, FilePart part,
    std::chrono::steady_clock::time_point until) {
  ++counts_.requests;
  http::CallLimits limits = call_limits_;
  // A server may take minutes to put parts together.
  if (part.file == nullptr)
    limits.stall =
        std::chrono::ceil<std::chrono::milliseconds>(std::max<std::chrono::steady_clock::duration>(
            until - std::chrono::steady_clock::now(), 1s));
  const std::string body = std::move(request.body);
  const std::uint64_t length = part.file == nullptr ? body.size() : part.length;
  CO_TRY(http::ClientStream stream,
         co_await client_.open(server.url, std::move(request), length, limits));
  Status sent = co_await stream.write(std::as_bytes(std::span(body)));
  const PooledBuffer buffer(PooledBuffer::kSmallBytes);
  for (std::uint64_t at = 0; sent && part.file != nullptr && at < part.length;) {
    if (std::chrono::steady_clock::now() > until)
      co_return fail(Errc::timeout, "only {} of {} bytes could be sent in time", at, part.length);
    const auto chunk =
        buffer.span().first(std::min<std::uint64_t>(part.length - at, buffer.span().size()));
    CO_TRY_OK(co_await part.file->read(chunk, part.offset + at));
    sent = co_await stream.write(chunk);
    at += chunk.size();
    counts_.sent_bytes += chunk.size();
    if (server.rate.bytes_per_second > 0)
      CO_TRY_OK(co_await limits_.pass(server.name, server.rate, RateLimits::Direction::sent,
                                      chunk.size()));
  }
  if (sent) sent = co_await stream.finish();
  // A server that refuses may answer before it has taken the whole body.
  auto answer = co_await stream.read_head();
  if (!answer) co_return fail(sent ? answer.error() : sent.error());
  CO_TRY(answer->body, co_await read_rest(stream, kRefusalBytesMax));
  co_return std::move(*answer);
}

Task<Upstream::Changed> Upstream::change(UpstreamName name, UpstreamChange change, FilePart part,
                                         std::chrono::seconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  Changed out{fail(Errc::unavailable, "nothing was tried"), false};
  const auto server = servers_.server_of(name.bucket, name.props);
  const std::string about = fmt::format("{} {}", http::to_string(change.method), name.display());
  const auto dialect =
      server ? writable_dialect_of(*server) : Result<const WritableDialect*>(fail(server.error()));
  if (!dialect) out.answer = fail(dialect.error());
  if (part.file != nullptr) change.streamed_bytes = part.length;
  const auto kind =
      change.method == http::Method::del ? api::BackendRequest::remove : api::BackendRequest::write;
  for (unsigned attempt = 0; dialect && attempt < tries_of(*server); ++attempt) {
    if (attempt > 0) co_await pause_before_try(attempt);
    if (attempt > 0 && std::chrono::steady_clock::now() > until) break;
    if (const Status turn = co_await limits_.enter(server->name, server->rate, kind); !turn) {
      if (attempt == 0) out.answer = fail(turn.error().code, "{}: {}", about, turn.error().message);
      break;
    }
    auto pass = co_await gates_.of(server->origin())->enter();
    if (!pass) {
      out.answer = fail(refused_by_gate(about, *server, pass.error()));
      if (attempt == 0) break;
      continue;
    }
    auto request = (*dialect)->change_request(*server, name.object, change, now());
    auto answer = co_await try_change(*server, std::move(request), part, until);
    pass->note(is_answered(answer));
    if (answer && answer->status / 100 == 2) {
      out.answer = std::move(*answer);
      out.may_have_happened = false;
      co_return out;
    }
    ++counts_.failed;
    if (!answer) {
      out.answer = fail(Errc::unavailable, "{}: {} does not answer: {}", about, server->display(),
                        answer.error().message);
      const Errc why = answer.error().code;
      const bool was_sent = why != Errc::invalid_argument && why != Errc::unauthenticated;
      out.may_have_happened = out.may_have_happened || was_sent;
      if (!is_tried_again(why)) break;
      continue;
    }
    Refusal refusal = (*dialect)->refusal_in(*server, about, *answer);
    if (refusal.is_absent && !refusal.names_object)
      refusal.error.code = refusal.names_bucket ? Errc::bucket_not_found : Errc::bad_upstream;
    out.answer = fail(std::move(refusal.error));
    out.may_have_happened = out.may_have_happened || refusal.may_pass;
    if (!refusal.may_pass) break;
  }
  obs::log("target").warn("upstream refused what={} err={}", about, out.answer.error().message);
  co_return out;
}

template <class Make>
Task<Result<Upstream::Answer>> Upstream::send(const UpstreamServer& server, std::string about,
                                              Make make, Accept accept,
                                              std::chrono::seconds turn_most) {
  const Dialect& dialect = dialect_of(server);
  Error last;
  const auto turn = [&] {
    return limits_.enter(server.name, server.rate, api::BackendRequest::read, turn_most);
  };
  for (unsigned attempt = 0; attempt < tries_of(server); ++attempt) {
    if (attempt > 0) co_await pause_before_try(attempt);
    if (const Status came = co_await turn(); !came) {
      if (attempt == 0) last = {came.error().code, about + ": " + came.error().message};
      break;
    }
    auto pass = co_await gates_.of(server.origin())->enter();
    if (!pass) {
      last = refused_by_gate(about, server, pass.error());
      if (attempt == 0) break;
      continue;
    }
    auto answer = co_await try_once(server, make());
    pass->note(answer && answer->head.status < 500);
    if (!answer) {
      ++counts_.failed;
      const Errc why = answer.error().code;
      last = {why == Errc::timeout ? why : Errc::unavailable,
              fmt::format("{}: {} does not answer: {}", about, server.display(),
                          answer.error().message)};
      if (!is_tried_again(why)) break;
      continue;
    }
    answer->pass = std::move(*pass);
    const unsigned kind = answer->head.status / 100;
    if (kind == 2 || (kind == 3 && accept == Accept::any_3xx)) co_return std::move(*answer);
    if (auto body = co_await read_rest(answer->stream, kRefusalBytesMax))
      answer->head.body = std::move(*body);
    const Refusal refusal = dialect.refusal_in(server, about, answer->head);
    last = refusal.error;
    const bool has_bucket = server.kind != api::UpstreamKind::web && !server.bucket.empty();
    if (refusal.is_absent && !refusal.names_object && has_bucket) {
      // The bucket may be what is absent, or something between here and the server.
      CO_TRY_OK(co_await turn());
      const auto bucket = co_await try_once(server, dialect.bucket_request(server, now()));
      if (!bucket)
        co_return fail(Errc::unavailable, "{}; whether the bucket is there cannot be told: {}",
                       last.message, bucket.error().message);
      if (bucket->head.status / 100 != 2)
        co_return fail(bucket->head.status == 404 ? Errc::bucket_not_found : Errc::bad_upstream,
                       "{}; the bucket {} answers {}", last.message, server.bucket,
                       bucket->head.status);
    }
    if (!refusal.may_pass) break;
    ++counts_.failed;
  }
  // Clients that ask for missing names do not fill the log.
  const bool is_usual =
      last.code == Errc::object_not_found || last.code == Errc::range_not_satisfiable;
  const auto level = is_usual ? spdlog::level::debug : spdlog::level::warn;
  obs::log("target").log(level, "upstream refused what={} err={}", about, last.message);
  co_return fail(std::move(last));
}

Task<Result<Upstream::Download>> Upstream::get_link(UpstreamName name, http::Fields more) {
  const std::string about = "GET " + name.display();
  CO_TRY(http::Url url, http::parse_http_or_https(name.link));
  for (int followed = 0;; ++followed) {
    auto server = servers_.server_of_link(url);
    if (!server && followed > 0)
      co_return fail(server.error().code, "{}: redirected to another server: {}", about,
                     server.error().message);
    if (!server) co_return fail(server.error());
    const auto make = [&] {
      http::ClientRequest request =
          dialect_of(*server).object_request(*server, http::Method::get, "", more, now());
      request.target = url.path;
      request.fields.insert(request.fields.end(), name.fields.begin(), name.fields.end());
      return request;
    };
    CO_TRY(Answer answer, co_await send(*server, about, make, Accept::any_3xx));
    const unsigned status = answer.head.status;
    if (status / 100 != 3 || status == 304) {
      CO_TRY(UpstreamObject object, dialect_of(*server).object_in(*server, answer.head));
      if (!object.size) object.size = answer.stream.content_length();
      const bool chunked = to_lower(answer.head.field("Transfer-Encoding")).ends_with("chunked");
      co_return Download{std::move(object), status, std::move(answer.stream), chunked,
                         std::move(answer.pass)};
    }
    const std::string_view location = answer.head.field("Location");
    if (followed == kRedirectsMax || location.empty() || !is_redirect(status))
      co_return fail(Errc::bad_upstream, "{}: {} answered {}{}", about, server->display(), status,
                     followed == kRedirectsMax
                         ? fmt::format(", and {} redirects went before", followed)
                         : std::string());
    CO_TRY(http::Url next, url_of_redirect(url, location));
    if (url.tls && !next.tls)
      co_return fail(Errc::bad_upstream, "{}: {} redirects from https to http", about,
                     server->display());
    if (next.authority() != url.authority() || next.tls != url.tls) name.fields.clear();
    url = std::move(next);
  }
}

Task<Result<Upstream::Download>> Upstream::get(UpstreamName name, http::Fields more,
                                               std::chrono::seconds turn_most) {
  if (!name.link.empty()) co_return co_await get_link(std::move(name), std::move(more));
  CO_TRY(const UpstreamServer server, servers_.server_of(name.bucket, name.props));
  const auto make = [&] {
    return dialect_of(server).object_request(server, http::Method::get, name.object, more, now());
  };
  CO_TRY(Answer answer,
         co_await send(server, "GET " + name.display(), make, Accept::success, turn_most));
  CO_TRY(UpstreamObject object, dialect_of(server).object_in(server, answer.head));
  if (!object.size) object.size = answer.stream.content_length();
  const bool chunked = to_lower(answer.head.field("Transfer-Encoding")).ends_with("chunked");
  co_return Download{std::move(object), answer.head.status, std::move(answer.stream), chunked,
                     std::move(answer.pass)};
}

Task<Status> Upstream::received(const UpstreamName& name, std::uint64_t bytes) {
  counts_.bytes += bytes;
  if (name.props.rate.bytes_per_second == 0) co_return Status();
  co_return co_await limits_.pass(name.bucket.display(), name.props.rate,
                                  RateLimits::Direction::received, bytes);
}

Task<Result<UpstreamObject>> Upstream::head(UpstreamName name) {
  CO_TRY(const UpstreamServer server, servers_.server_of(name.bucket, name.props));
  const auto make = [&] {
    return dialect_of(server).object_request(server, http::Method::head, name.object, {}, now());
  };
  CO_TRY(const Answer answer, co_await send(server, "HEAD " + name.display(), make));
  co_return dialect_of(server).object_in(server, answer.head);
}

/// The other region where the bucket is, as S3 reports. A list is asked for: its refusal has a
/// body, which names the region where no field does. Empty: the server reports none.
Task<std::string> Upstream::region_of_bucket(const UpstreamServer& server) {
  const Dialect& dialect = dialect_of(server);
  UpstreamListOrder one;
  one.limit = 1;
  auto request = dialect.list_request(server, one, now());
  if (!request) co_return "";
  const auto pass = co_await gates_.of(server.origin())->enter();
  if (!pass) co_return "";
  auto answer = co_await try_once(server, std::move(*request));
  if (!answer || answer->head.status / 100 == 2) co_return "";
  if (auto body = co_await read_rest(answer->stream, kRefusalBytesMax))
    answer->head.body = std::move(*body);
  co_return dialect.refusal_in(server, "list", answer->head).region;
}

Task<Result<api::UpstreamProps>> Upstream::check_bucket(api::Bucket bucket,
                                                        api::UpstreamProps props) {
  CO_TRY(const UpstreamServer server, servers_.server_of(bucket, props));
  const Status usual = co_await ask_for_bucket(server);
  if (usual) co_return props;
  const Errc why = usual.error().code;
  if (server.kind != api::UpstreamKind::s3 || !props.region.empty() || may_pass(why) ||
      why == Errc::bucket_not_found)
    co_return fail(usual.error());
  props.region = co_await region_of_bucket(server);
  if (props.region.empty() || !api::is_region(props.region)) co_return fail(usual.error());
  CO_TRY(const UpstreamServer there, servers_.server_of(bucket, props));
  if (const Status found = co_await ask_for_bucket(there); !found) {
    const Errc code = found.error().code;
    const bool is_told = code == Errc::forbidden || code == Errc::bucket_not_found;
    co_return fail(is_told ? found.error() : usual.error());
  }
  obs::log("target").info("bucket is in another region bucket={} region={}", bucket.display(),
                          props.region);
  co_return props;
}

Task<Status> Upstream::ask_for_bucket(const UpstreamServer& server) {
  const auto make = [&] { return dialect_of(server).bucket_request(server, now()); };
  const auto answer = co_await send(server, "HEAD " + server.name, make);
  if (answer) co_return Status();
  const Errc why = answer.error().code;
  // Few web servers answer for the directory itself: what answers is there.
  if (server.kind == api::UpstreamKind::web && !may_pass(why)) co_return Status();
  Errc code = why == Errc::object_not_found ? Errc::bucket_not_found : why;
  // A name that no bucket can have there, a server of another kind: what was asked for.
  if (why == Errc::bad_upstream) code = Errc::invalid_argument;
  co_return fail(code, "{}", answer.error().message);
}

Task<Result<bool>> Upstream::has_folder(const UpstreamName& name) {
  CO_TRY(const UpstreamServer server, server_of(name));
  const auto make = [&] { return dialect_of(server).bucket_request(server, now()); };
  const auto answer = co_await send(server, "HEAD " + name.bucket.display(), make);
  if (!answer && may_pass(answer.error().code)) co_return fail(answer.error());
  co_return answer || answer.error().code != Errc::object_not_found;
}

Task<Result<UpstreamPage>> Upstream::list(api::Bucket bucket, api::UpstreamProps props,
                                          UpstreamListOrder order) {
  CO_TRY(const UpstreamServer server, servers_.server_of(bucket, props));
  const Dialect& dialect = dialect_of(server);
  while (true) {
    CO_TRY_OK(dialect.list_request(server, order, now()));
    const auto make = [&] { return *dialect.list_request(server, order, now()); };
    CO_TRY(Answer answer, co_await send(server, "list of " + bucket.display(), make));
    CO_TRY(const std::string body, co_await read_rest(answer.stream, kListBytesMax));
    CO_TRY(UpstreamPage page, dialect.page_in(server, order, body));
    if (!page.entries.empty() || !page.more) co_return page;
    if (page.marker.empty() || page.marker == order.marker)
      co_return fail(Errc::bad_upstream, "{} answered a list with no names and yet more of them",
                     server.display());
    order.marker = std::move(page.marker);
  }
}

Task<Result<std::vector<std::string>>> Upstream::list_buckets(api::UpstreamKind kind) {
  CO_TRY(const UpstreamServer account, servers_.account_of(kind));
  CO_TRY(const WritableDialect* dialect, writable_dialect_of(account));
  std::vector<std::string> out;
  std::string marker;
  do {
    const auto make = [&] { return dialect->buckets_request(account, marker, now()); };
    CO_TRY(Answer answer, co_await send(account, "list of the buckets of " + account.name, make));
    CO_TRY(const std::string body, co_await read_rest(answer.stream, kListBytesMax));
    CO_TRY(UpstreamBuckets page, dialect->buckets_in(account, body));
    if (!page.marker.empty() && (page.names.empty() || page.marker == marker))
      co_return fail(Errc::bad_upstream, "{} answered a list with no buckets and yet more of them",
                     account.display());
    out.insert(out.end(), std::make_move_iterator(page.names.begin()),
               std::make_move_iterator(page.names.end()));
    marker = std::move(page.marker);
  } while (!marker.empty());
  std::sort(out.begin(), out.end());
  co_return out;
}

}  // namespace tarn::target
