#include "common/http/client.h"

#include <algorithm>
#include <array>

#include <boost/asio/io_context.hpp>

#include "common/base/check.h"
#include "common/base/encoding.h"
#include "common/base/local_address.h"
#include "common/http/client_connection.h"
#include "common/http/idle_pool.h"
#include "common/http/loops.h"

namespace tarn::http {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 64U << 10U;
constexpr int kInterimAnswersMax = 8;

bool is_host_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

Status take_authority(std::string_view text, Url& url) {
  const bool bracketed = text.starts_with('[');
  const auto host_end = bracketed ? text.find(']') : text.find(':');
  if (bracketed && host_end == std::string_view::npos)
    return fail(Errc::invalid_argument, "'{}': the address has no closing bracket", text);
  const auto host = bracketed ? text.substr(1, host_end - 1) : text.substr(0, host_end);
  auto rest = text.substr(std::min(text.size(), host_end));
  if (bracketed) rest.remove_prefix(1);
  const bool valid = std::all_of(host.begin(), host.end(), [&](char c) {
    return is_host_char(c) || (bracketed && (c == ':' || c == '%'));
  });
  if (host.empty() || !valid)
    return fail(Errc::invalid_argument, "'{}' is not a host name or an address", text);
  url.host = host;
  if (rest.empty()) return {};
  const auto port = rest.front() == ':' ? parse_u64(rest.substr(1)) : std::nullopt;
  if (!port || *port == 0 || *port > 65'535)
    return fail(Errc::invalid_argument, "'{}': the port is not a number from 1 to 65535", text);
  url.port = static_cast<std::uint16_t>(*port);
  return {};
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

bool has_scheme(std::string_view text, std::string_view scheme) {
  return text.size() >= scheme.size() && iequals(text.substr(0, scheme.size()), scheme);
}

/// Parses `rest`, which follows the scheme of the URL `text`.
Status take_rest(std::string_view text, std::string_view rest, Url& url) {
  rest = rest.substr(0, rest.find('#'));
  const auto end = std::min(rest.find_first_of("/?"), rest.size());
  TRY_OK(take_authority(rest.substr(0, end), url));
  const auto path = rest.substr(end);
  if (has_control(path) || path.find_first_of(" \t") != std::string_view::npos)
    return fail(Errc::invalid_argument, "malformed path in the URL '{}'", text);
  url.path = path.starts_with('/') ? std::string(path) : "/" + std::string(path);
  return {};
}

bool is_framing_field(std::string_view name) {
  for (const char* own : {"Host", "Content-Length", "Transfer-Encoding", "Connection"})
    if (iequals(name, own)) return true;
  return false;
}

/// Values that a caller passes on may come from far away: none may end a line or frame a body.
Status check_request(const ClientRequest& request) {
  if (request.method == Method::other)
    return fail(Errc::invalid_argument, "a request without a method");
  if (!request.target.starts_with('/') || has_control(request.target) ||
      request.target.find_first_of(" \t#") != std::string::npos)
    return fail(Errc::invalid_argument, "malformed request target '{}'", request.target);
  for (const Field& field : request.fields) {
    if (field.name.empty() || has_control(field.name) ||
        field.name.find_first_of(" \t:") != std::string::npos || has_control(field.value))
      return fail(Errc::invalid_argument, "malformed header field '{}'", field.name);
    if (is_framing_field(field.name))
      return fail(Errc::invalid_argument, "the field {} is the client's own", field.name);
  }
  return {};
}

bool sends_chunks_without_length(Method method) {
  return method == Method::put || method == Method::post || method == Method::patch;
}

bool has_no_side_effects(Method method) {
  return method == Method::get || method == Method::head || method == Method::options;
}

/// None for http.
Result<std::shared_ptr<const TlsContext>> context_for(
    const Url& url, const std::shared_ptr<const TlsContext>& configured) {
  if (!url.tls) return std::shared_ptr<const TlsContext>();
  if (!configured)
    return fail(Errc::invalid_argument, "https is not spoken here: {}", url.authority());
  return configured;
}

std::string head_text(const Url& url, const ClientRequest& request,
                      std::optional<std::uint64_t> length, bool chunked) {
  std::string out =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: Tarn/" TARN_VERSION "\r\n",
                  to_string(request.method), request.target, url.host_field());
  for (const Field& field : request.fields) out += field.name + ": " + field.value + "\r\n";
  if (chunked)
    out += "Transfer-Encoding: chunked\r\n";
  else if (length)
    out += fmt::format("Content-Length: {}\r\n", *length);
  return out + "\r\n";
}

}  // namespace

std::string Url::authority() const { return authority_text(host, port); }

std::string Url::host_field() const {
  std::string out = authority();
  const std::string_view usual = tls ? ":443" : ":80";
  if (out.ends_with(usual)) out.resize(out.size() - usual.size());
  return out;
}

Result<Url> parse_url(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (!has_scheme(text, kScheme))
    return fail(Errc::invalid_argument, "'{}' is not a URL of the form http://host:port", text);
  Url url;
  TRY_OK(take_rest(text, text.substr(kScheme.size()), url));
  return url;
}

Result<Url> parse_http_or_https(std::string_view text) {
  constexpr std::string_view kScheme = "https://";
  if (!has_scheme(text, kScheme)) return parse_url(text);
  Url url;
  url.port = 443;
  url.tls = true;
  TRY_OK(take_rest(text, text.substr(kScheme.size()), url));
  return url;
}

/// A request on its way. The connection goes back to the pool when both bodies are complete.
struct ClientStream::Impl {
  Url url;
  std::shared_ptr<const TlsContext> tls;  ///< of https
  Method method = Method::get;
  std::string text;        ///< the head; kept until an answer came when it may be sent again
  std::string small_body;  ///< of call(): sent with the head
  CallLimits limits;
  std::optional<steady_clock::time_point> deadline;  ///< of call()

  std::shared_ptr<ClientConnection> connection;
  IdlePool* pool = nullptr;
  bool was_idle = false;

  bool chunked = false;
  bool in_chunks = false;  // a chunk has been sent, and its end not yet
  std::uint64_t body_left = 0;
  bool body_sent = true;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { release(); }

  /// Connects and sends head and small body. A failure to send is left for read_head() to explain:
  /// the peer may have answered first.
  Task<Status> start(bool fresh);
  Task<Result<ClientResponse>> read_head();
  /// The whole body of an answer, at most limits.body_bytes_max of it.
  Task<Result<std::string>> read_body();
  [[nodiscard]] bool may_repeat() const {
    return was_idle && has_no_side_effects(method) && !connection->answer_begun();
  }
  void release();
};

Task<Status> ClientStream::Impl::start(bool fresh) {
  const auto executor = co_await asio::this_coro::executor;
  pool = &asio::use_service<IdlePool>(asio::query(executor, asio::execution::context));
  connection = fresh ? nullptr : pool->take(url.authority(), tls.get());
  was_idle = connection != nullptr;
  if (!connection) {
    auto until = steady_clock::now() + limits.connect;
    if (deadline) until = std::min(until, *deadline);
    CO_TRY(connection, co_await ClientConnection::connect(url, tls, until));
  }
  connection->set_limits({deadline, limits.stall, limits.is_silent});
  const auto body = std::as_bytes(std::span(small_body));
  const Status sent = co_await connection->send(text, body);
  if (!sent && sent.error().code != Errc::disconnected) co_return sent;
  co_return Status();
}

Task<Result<ClientResponse>> ClientStream::Impl::read_head() {
  const bool to_head = method == Method::head;
  auto head = co_await connection->read_head(to_head);
  if (!head && head.error().code == Errc::disconnected && may_repeat()) {
    CO_TRY_OK(co_await start(true));
    head = co_await connection->read_head(to_head);
  }
  co_return head;
}

Task<Result<std::string>> ClientStream::Impl::read_body() {
  const std::size_t bytes_max = limits.body_bytes_max;
  const auto announced = connection->content_length();
  std::string out;
  std::string buffer(std::min<std::uint64_t>(announced.value_or(kReadBytes) + 1, kReadBytes), '\0');
  while (true) {
    CO_TRY(const std::size_t got,
           co_await connection->read_body(std::as_writable_bytes(std::span(buffer))));
    if (got == 0) co_return out;
    if (out.size() + got > bytes_max)
      co_return fail(Errc::body_too_large, "{}: an answer of more than {} bytes",
                     connection->authority(), bytes_max);
    out.append(buffer, 0, got);
  }
}

void ClientStream::Impl::release() {
  try {
    if (connection && body_sent && connection->reusable()) pool->put(std::move(connection));
    connection.reset();
  } catch (const std::exception&) {
    connection.reset();  // no memory to keep it: the next request connects anew
  }
}

ClientStream::ClientStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ClientStream::~ClientStream() = default;
ClientStream::ClientStream(ClientStream&&) noexcept = default;
ClientStream& ClientStream::operator=(ClientStream&&) noexcept = default;

Task<Status> ClientStream::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) co_return Status();
  if (!impl_->chunked) {
    if (bytes.size() > impl_->body_left)
      co_return fail(Errc::internal, "{} bytes more than the request announced",
                     bytes.size() - impl_->body_left);
    CO_TRY_OK(co_await impl_->connection->send({}, bytes));
    impl_->body_left -= bytes.size();
    co_return Status();
  }
  // The end of the chunk before goes with the next one: one call of the kernel for each.
  const std::string head =
      fmt::format("{}{:x}\r\n", std::exchange(impl_->in_chunks, true) ? "\r\n" : "", bytes.size());
  const Status sent = co_await impl_->connection->send(head, bytes);
  co_return sent;
}

Task<Status> ClientStream::finish() {
  if (impl_->body_left > 0)
    co_return fail(Errc::internal, "a request body {} bytes short", impl_->body_left);
  if (impl_->chunked && !impl_->body_sent) {
    const std::string_view end = impl_->in_chunks ? "\r\n0\r\n\r\n" : "0\r\n\r\n";
    CO_TRY_OK(co_await impl_->connection->send(end, {}));
  }
  impl_->body_sent = true;
  co_return Status();
}

Task<Result<ClientResponse>> ClientStream::read_head() {
  auto head = co_await impl_->read_head();
  co_return head;
}

void ClientStream::set_stall(std::chrono::milliseconds stall) {
  impl_->connection->set_stall(stall);
}

bool ClientStream::answer_ready() const { return impl_->connection->readable(); }

std::optional<std::uint64_t> ClientStream::content_length() const {
  return impl_->connection->content_length();
}

Task<Result<std::size_t>> ClientStream::read_some(std::span<std::byte> into) {
  const auto got = co_await impl_->connection->read_body(into);
  co_return got;
}

Task<Result<ClientStream>> Client::open(Url url, ClientRequest request,
                                        std::optional<std::uint64_t> length, CallLimits limits) {
  CO_TRY_OK(check_request(request));
  auto impl = std::make_unique<ClientStream::Impl>();
  CO_TRY(impl->tls, context_for(url, tls_));
  impl->method = request.method;
  impl->limits = limits;
  impl->chunked = !length && sends_chunks_without_length(request.method);
  impl->body_left = length.value_or(0);
  impl->body_sent = !impl->chunked && impl->body_left == 0;
  impl->text = head_text(url, request, length, impl->chunked);
  impl->url = std::move(url);
  CO_TRY_OK(co_await impl->start(false));
  co_return ClientStream(std::move(impl));
}

Task<Result<ClientResponse>> Client::call(Url url, ClientRequest request, CallLimits limits) {
  CO_TRY_OK(check_request(request));
  ClientStream::Impl exchange;
  CO_TRY(exchange.tls, context_for(url, tls_));
  exchange.method = request.method;
  exchange.limits = limits;
  exchange.deadline = steady_clock::now() + limits.total;
  std::optional<std::uint64_t> length;
  if (!request.body.empty() || sends_chunks_without_length(request.method))
    length = request.body.size();
  exchange.text = head_text(url, request, length, false);
  exchange.small_body = std::move(request.body);
  exchange.url = std::move(url);
  CO_TRY_OK(co_await exchange.start(false));
  CO_TRY(ClientResponse answer, co_await exchange.read_head());
  for (int interim = 0; answer.status < 200; ++interim) {
    if (interim == kInterimAnswersMax)
      co_return fail(Errc::io, "{}: only interim answers", exchange.connection->authority());
    CO_TRY(answer, co_await exchange.read_head());
  }
  CO_TRY(answer.body, co_await exchange.read_body());
  co_return answer;
}

void Client::close_idle() {
  Loop* const loop = Loop::current();
  TARN_CHECK(loop != nullptr);
  asio::use_service<IdlePool>(loop->context()).clear();
}

}  // namespace tarn::http
