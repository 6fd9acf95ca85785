#include "common/http/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "common/api/status.h"
#include "common/base/encoding.h"
#include "common/obs/log.h"

namespace tarn::http {
namespace {

namespace beast_http = boost::beast::http;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 16 * 1024;          // for heads
constexpr std::size_t kChunkedReadBytes = 256 * 1024;  // for chunked bodies
constexpr std::size_t kChunkLineBytesMax = 16 * 1024;  // chunk sizes, extensions, trailers
constexpr std::size_t kTurnBytes = 2U << 20U;          // before other connections get their turn
constexpr std::uint64_t kLingerBytesMax = 1U << 20U;
constexpr auto kLingerTime = std::chrono::milliseconds(500);

void set_tcp_option(int fd, int option, int value) {
  setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value);
}

Method method_of(beast_http::verb verb) {
  switch (verb) {
    case beast_http::verb::get: return Method::get;
    case beast_http::verb::head: return Method::head;
    case beast_http::verb::put: return Method::put;
    case beast_http::verb::post: return Method::post;
    case beast_http::verb::patch: return Method::patch;
    case beast_http::verb::delete_: return Method::del;
    case beast_http::verb::options: return Method::options;
    default: return Method::other;
  }
}

/// Beast waits for CR LF CR LF; a head with bare line feeds would wait for ever. So look for them
/// first.
bool has_bare_line_feed(std::string_view bytes) {
  const auto end = bytes.find("\r\n\r\n");
  const auto head = bytes.substr(0, end);
  for (auto at = head.find('\n'); at != std::string_view::npos; at = head.find('\n', at + 1))
    if (at == 0 || head[at - 1] != '\r') return true;
  return false;
}

Error head_error(const error_code& ec) {
  if (ec == beast_http::error::header_limit)
    return {Errc::header_too_large, "the header block is too large"};
  if (ec == beast_http::error::bad_version)
    return {Errc::unsupported, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  return {Errc::invalid_argument, fmt::format("malformed HTTP request: {}", ec.message())};
}

std::size_t count_fields(const RequestHead& head, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(head.fields.begin(), head.fields.end(),
                    [&](const Field& field) { return iequals(field.name, name); }));
}

Status check_host(const RequestHead& head) {
  const auto count = count_fields(head, "Host");
  if (count > 1 || (count == 0 && head.version == 11))
    return fail(Errc::invalid_argument, "a request needs exactly one Host field, this one has {}",
                count);
  if (head.field("Host").find_first_of(" \t,/@\\") != std::string_view::npos)
    return fail(Errc::invalid_argument, "malformed Host field '{}'", head.field("Host"));
  return {};
}

}  // namespace

Status check_framing(const RequestHead& head, std::size_t header_bytes, const Limits& limits) {
  if (head.target.size() > limits.target_bytes_max)
    return fail(Errc::uri_too_long, "the request target has {} bytes, at most {} are allowed",
                head.target.size(), limits.target_bytes_max);
  if (header_bytes > limits.header_bytes_max)
    return fail(Errc::header_too_large, "the header block has {} bytes, at most {} are allowed",
                header_bytes, limits.header_bytes_max);
  if (head.fields.size() > limits.fields_max)
    return fail(Errc::header_too_large, "{} header fields, at most {} are allowed",
                head.fields.size(), limits.fields_max);
  TRY_OK(check_host(head));
  const auto lengths = count_fields(head, "Content-Length");
  const auto codings = count_fields(head, "Transfer-Encoding");
  if (lengths > 1) return fail(Errc::invalid_argument, "more than one Content-Length field");
  if (codings > 1) return fail(Errc::invalid_argument, "more than one Transfer-Encoding field");
  if (lengths == 1 && codings == 1)
    return fail(Errc::invalid_argument, "both Content-Length and Transfer-Encoding");
  if (lengths == 1 && !parse_u64(head.field("Content-Length")))
    return fail(Errc::invalid_argument, "malformed Content-Length '{}'",
                head.field("Content-Length"));
  if (codings == 1) {
    const auto coding = head.field("Transfer-Encoding");
    if (head.version == 10)
      return fail(Errc::invalid_argument, "Transfer-Encoding in an HTTP/1.0 request");
    if (!iequals(coding, "chunked"))
      return fail(Errc::invalid_argument, "transfer coding '{}': only chunked is understood",
                  coding);
  }
  if (const auto expect = head.field("Expect"); !expect.empty() && !iequals(expect, "100-continue"))
    return fail(Errc::invalid_argument, "expectation '{}': only 100-continue is understood",
                expect);
  return {};
}

struct Connection::Parser {
  boost::beast::flat_buffer buffer;
  std::optional<beast_http::request_parser<beast_http::buffer_body>> http;

  [[nodiscard]] std::string_view text() const {
    return {static_cast<const char*>(buffer.data().data()), buffer.size()};
  }
};

Connection::Connection(ServerShared& shared, Socket socket)
    : shared_(shared),
      socket_(std::move(socket)),
      parser_(std::make_unique<Parser>()),
      phase_since_(std::chrono::steady_clock::now()) {
  error_code ignored;
  socket_.native_non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  const auto peer = socket_.remote_endpoint(ignored);
  remote_ = peer.address().to_string() + ":" + std::to_string(peer.port());
  shared_.open.fetch_add(1, std::memory_order_relaxed);
}

Connection::~Connection() { shared_.open.fetch_sub(1, std::memory_order_relaxed); }

void Connection::enter(Phase phase) {
  phase_ = phase;
  phase_since_ = std::chrono::steady_clock::now();
}

void Connection::sweep(SteadyTime now) {
  const Limits& limits = shared_.options.limits;
  const auto spent = now - phase_since_;
  bool late = false;
  switch (phase_) {
    case Phase::idle: late = spent > limits.idle_timeout; break;
    case Phase::head: late = spent > limits.header_timeout; break;
    case Phase::working: break;  // waits for us, not for the peer
    case Phase::waiting: {
      waited_ += spent;
      phase_since_ = now;
      if (waited_ < limits.rate_window) break;
      const auto window = std::chrono::duration_cast<std::chrono::milliseconds>(limits.rate_window);
      late = window_bytes_ * 1000 < limits.rate_min * static_cast<std::uint64_t>(window.count());
      waited_ = {};
      window_bytes_ = 0;
      break;
    }
  }
  if (!late) return;
  timed_out_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::stop(bool at_once) {
  stopping_ = true;
  if (!at_once && phase_ != Phase::idle) return;
  error_code ignored;
  if (at_once) socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.cancel(ignored);
}

Task<Status> Connection::wait(Socket::wait_type what) {
  if (timed_out_) co_return fail(Errc::timeout, "the peer is too slow");
  const Phase before = phase_;
  const bool transfer = before == Phase::working;
  if (transfer) enter(Phase::waiting);
  since_yield_ = 0;
  const auto [ec] = co_await socket_.async_wait(what, kTuple);
  if (transfer) {
    waited_ += std::chrono::steady_clock::now() - phase_since_;
    enter(Phase::working);
  }
  if (timed_out_) co_return fail(Errc::timeout, "the peer is too slow");
  if (ec) co_return fail(Errc::disconnected, "waiting for the peer: {}", ec.message());
  co_return Status();
}

Task<void> Connection::yield_after(std::size_t bytes) {
  since_yield_ += bytes;
  if (since_yield_ < kTurnBytes) co_return;
  since_yield_ = 0;
  co_await asio::post(socket_.get_executor(), asio::use_awaitable);
}

/// Reads what is there into the buffer. 0: the peer has closed.
Task<Result<std::size_t>> Connection::fill_buffer() {
  const std::size_t room =
      parser_->http && parser_->http->is_header_done() ? kChunkedReadBytes : kReadBytes;
  const auto space = parser_->buffer.prepare(room);
  while (true) {
    const ssize_t got = ::recv(socket_.native_handle(), space.data(), space.size(), MSG_DONTWAIT);
    if (got >= 0) {
      parser_->buffer.commit(static_cast<std::size_t>(got));
      moved(static_cast<std::size_t>(got));
      co_await yield_after(static_cast<std::size_t>(got));
      co_return static_cast<std::size_t>(got);
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      co_return fail(Errc::disconnected, "receive: {}", std::strerror(errno));
    CO_TRY_OK(co_await wait(Socket::wait_read));
  }
}

/// True: `out` is a request. False: the peer closed (or we stop) between requests.
Task<Result<bool>> Connection::read_head(RequestHead& out) {
  const Limits& limits = shared_.options.limits;
  auto& buffer = parser_->buffer;
  auto& http = parser_->http.emplace();
  http.header_limit(
      static_cast<std::uint32_t>(limits.header_bytes_max + limits.target_bytes_max + 1024));
  http.body_limit(boost::none);
  if (buffer.size() == 0) {
    buffer = boost::beast::flat_buffer();  // an idle connection keeps no memory
    enter(Phase::idle);
  } else {
    enter(Phase::head);
  }
  std::size_t head_bytes = 0;
  while (!http.is_header_done()) {
    // RFC 9112, 2.2: ignore an empty line before the request line.
    if (parser_->text().starts_with("\r\n")) buffer.consume(2);
    if (buffer.size() > 0) {
      if (has_bare_line_feed(parser_->text()))
        co_return fail(Errc::invalid_argument, "a line of the header ends without CR");
      const auto line_end = parser_->text().find("\r\n");
      if (std::min(line_end, buffer.size()) > limits.target_bytes_max + 64)
        co_return fail(Errc::uri_too_long, "the request line is longer than {} bytes",
                       limits.target_bytes_max);
      error_code ec;
      const std::size_t used = http.put(buffer.data(), ec);
      buffer.consume(used);
      head_bytes += used;
      if (http.is_header_done()) break;
      if (ec && ec != beast_http::error::need_more) co_return fail(head_error(ec));
    }
    if (stopping_ && phase_ == Phase::idle) co_return false;
    const auto got = co_await fill_buffer();
    if (!got) {
      if (stopping_ || phase_ == Phase::idle) co_return false;
      co_return fail(got.error());
    }
    if (*got == 0) co_return false;
    if (phase_ == Phase::idle) enter(Phase::head);
  }
  const auto& message = http.get();
  out.method = method_of(message.method());
  out.method_text = std::string(message.method_string());
  out.target = std::string(message.target());
  out.version = message.version();
  for (const auto& field : message)
    out.fields.push_back({std::string(field.name_string()), std::string(field.value())});
  out.keep_alive = message.keep_alive() && !stopping_;
  const std::size_t line_bytes = out.method_text.size() + out.target.size() + 12;
  const std::size_t field_bytes = head_bytes > line_bytes ? head_bytes - line_bytes : 0;
  CO_TRY_OK(check_framing(out, field_bytes, limits));
  out.chunked = !out.field("Transfer-Encoding").empty();
  out.content_length = parse_u64(out.field("Content-Length"));
  out.expects_continue = out.version == 11 && !out.field("Expect").empty();
  enter(Phase::working);
  waited_ = {};
  window_bytes_ = 0;
  co_return true;
}

Task<Result<std::size_t>> Connection::receive(std::span<std::byte> into) {
  auto& buffer = parser_->buffer;
  if (buffer.size() > 0) {
    const std::size_t count = std::min(into.size(), buffer.size());
    std::memcpy(into.data(), buffer.data().data(), count);
    buffer.consume(count);
    shared_.body_bytes.fetch_add(count, std::memory_order_relaxed);
    co_return count;
  }
  while (true) {
    const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) {
      const auto count = static_cast<std::size_t>(got);
      moved(count);
      shared_.body_bytes.fetch_add(count, std::memory_order_relaxed);
      co_await yield_after(count);
      co_return count;
    }
    if (got == 0)
      co_return fail(Errc::disconnected, "the client closed before the end of its body");
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      co_return fail(Errc::disconnected, "receive: {}", std::strerror(errno));
    CO_TRY_OK(co_await wait(Socket::wait_read));
  }
}

Task<Result<std::size_t>> Connection::receive_chunked(std::span<std::byte> into) {
  auto& http = *parser_->http;
  auto& buffer = parser_->buffer;
  auto& body = http.get().body();
  body.data = into.data();
  body.size = into.size();
  body.more = true;
  http.eager(true);
  while (true) {
    error_code ec;
    std::size_t used = 0;
    if (buffer.size() > 0) used = http.put(buffer.data(), ec);
    buffer.consume(used);
    const std::size_t got = into.size() - body.size;
    if (ec && ec != beast_http::error::need_more && ec != beast_http::error::need_buffer)
      co_return fail(Errc::invalid_argument, "malformed chunked body: {}", ec.message());
    if (got > 0 || http.is_done()) {
      shared_.body_bytes.fetch_add(got, std::memory_order_relaxed);
      if (got > 0) co_return got;
      co_return std::size_t{0};
    }
    if (used == 0 && buffer.size() > kChunkLineBytesMax)
      co_return fail(Errc::invalid_argument, "a chunk header or trailer is longer than {} bytes",
                     kChunkLineBytesMax);
    if (used > 0 && buffer.size() > 0) continue;
    CO_TRY(const std::size_t more, co_await fill_buffer());
    if (more == 0)
      co_return fail(Errc::disconnected, "the client closed before the end of its body");
  }
}

std::size_t Connection::drop_buffered(std::uint64_t bytes) {
  const std::size_t count = std::min<std::uint64_t>(bytes, parser_->buffer.size());
  parser_->buffer.consume(count);
  shared_.body_bytes.fetch_add(count, std::memory_order_relaxed);
  return count;
}

std::size_t Connection::buffered() const { return parser_->buffer.size(); }

void Connection::cork(bool on) {
  // NODELAY must be off while corked, or every sendfile pushes a partial segment.
  const int fd = socket_.native_handle();
  if (on) set_tcp_option(fd, TCP_NODELAY, 0);
  set_tcp_option(fd, TCP_CORK, on ? 1 : 0);
  if (!on) set_tcp_option(fd, TCP_NODELAY, 1);
}

Task<Status> Connection::send(std::string_view head, std::span<const std::byte> body, bool more) {
  while (!head.empty() || !body.empty()) {
    std::array<iovec, 2> parts{iovec{const_cast<char*>(head.data()), head.size()},
                               iovec{const_cast<std::byte*>(body.data()), body.size()}};
    msghdr message{};
    message.msg_iov = head.empty() ? &parts[1] : parts.data();
    message.msg_iovlen = head.empty() ? 1 : 2;
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, flags);
    if (sent >= 0) {
      auto left = static_cast<std::size_t>(sent);
      moved(left);
      co_await yield_after(left);
      const std::size_t of_head = std::min(left, head.size());
      head.remove_prefix(of_head);
      body = body.subspan(left - of_head);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      co_return fail(Errc::disconnected, "send: {}", std::strerror(errno));
    CO_TRY_OK(co_await wait(Socket::wait_write));
  }
  co_return Status();
}

Task<Result<std::uint64_t>> Connection::send_file(int fd, std::uint64_t offset,
                                                  std::uint64_t length,
                                                  const Exchange::ResidentCheck& resident) {
  auto at = static_cast<off_t>(offset);
  std::uint64_t left = length;
  while (left > 0) {
    const ssize_t sent =
        ::sendfile(socket_.native_handle(), fd, &at, std::min<std::uint64_t>(left, kTurnBytes));
    if (sent > 0) {
      left -= static_cast<std::uint64_t>(sent);
      moved(static_cast<std::size_t>(sent));
      co_await yield_after(static_cast<std::size_t>(sent));
      continue;
    }
    if (sent == 0) co_return fail(Errc::corrupt, "a data file is shorter than its record says");
    if (errno == EINTR) continue;
    if (errno == EIO) co_return fail(Errc::io, "sendfile: {}", std::strerror(errno));
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      co_return fail(Errc::disconnected, "sendfile: {}", std::strerror(errno));
    CO_TRY_OK(co_await wait(Socket::wait_write));
    if (!resident(static_cast<std::uint64_t>(at), left)) break;
  }
  co_return length - left;
}

/// Answers a request whose head could not be read.
Task<void> Connection::refuse(const Error& error) {
  RequestHead nothing;
  nothing.keep_alive = false;
  enter(Phase::working);
  timed_out_ = false;
  Exchange exchange(*this, std::move(nothing));
  const api::ErrorScene scene{"", "", remote_, shared_.options.node};
  Response response(api::http_status(error.code), kErrorJson, api::error_json(error, scene) + "\n");
  if (error.code == Errc::timeout) response.status = 408;
  if (error.code == Errc::unsupported) response.status = 505;
  static_cast<void>(co_await exchange.respond(std::move(response)));
}

Task<void> Connection::serve(Exchange& exchange) {
  const auto started = std::chrono::steady_clock::now();
  Status result;
  try {
    result = co_await shared_.options.handler(exchange);
  } catch (const std::exception& problem) {
    obs::log("http").error("handler threw req={} err={}", exchange.request_id(), problem.what());
    result = fail(Errc::internal, "internal error, request {}", exchange.request_id());
  }
  if (!result && !exchange.response_started() && result.error().code != Errc::disconnected) {
    const std::string_view target = exchange.head().target;  // its query may hold a signature
    const api::ErrorScene scene{exchange.head().method_text, target.substr(0, target.find('?')),
                                remote_, shared_.options.node};
    const std::string body = api::error_json(result.error(), scene);
    Response response(api::http_status(result.error().code), kErrorJson, body + "\n");
    response.set("X-Content-Type-Options", "nosniff");
    if (response.status == 503) response.set("Retry-After", "1");
    if (result.error().code == Errc::timeout && exchange.head().has_body() &&
        !exchange.body_complete())
      response.status = 408;
    if (exchange.head().method == Method::head) response.set("Hdr-Error", body);
    timed_out_ = false;
    const Status sent = co_await exchange.respond(std::move(response));
    if (!sent) exchange.close_after();
  } else if (result && !exchange.response_complete()) {
    obs::log("http").error("handler sent no complete answer req={} target={}",
                           exchange.request_id(), exchange.head().target);
    exchange.close_after();
  }
  if (!exchange.response_complete()) exchange.close_after();
  if (shared_.options.observer)
    shared_.options.observer(exchange, result, std::chrono::steady_clock::now() - started);
}

/// Lets an answer arrive although the client is still sending: closing at once would reset it.
Task<void> Connection::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  asio::steady_timer timer(socket_.get_executor(), kLingerTime);
  bool expired = false;
  timer.async_wait([this, &expired](error_code ec) {
    if (ec) return;
    expired = true;
    error_code also_ignored;
    socket_.cancel(also_ignored);
  });
  std::uint64_t dropped = drop_buffered(kLingerBytesMax);
  enter(Phase::working);
  std::array<std::byte, 16 * 1024> scrap{};
  while (!expired && dropped < kLingerBytesMax) {
    const auto got = co_await receive(scrap);
    if (!got) break;
    dropped += *got;
  }
  timer.cancel();
  co_await asio::post(socket_.get_executor(), asio::use_awaitable);  // the timer's handler has run
}

Task<void> Connection::run() {
  co_await asio::this_coro::throw_if_cancelled(false);
  bool unread_body = false;
  while (true) {
    RequestHead head;
    const auto got = co_await read_head(head);
    if (!got) {
      Error error = got.error();
      if (error.code == Errc::disconnected) break;
      co_await refuse(error);
      unread_body = true;
      break;
    }
    if (!*got) break;
    Exchange exchange(*this, std::move(head));
    co_await serve(exchange);
    unread_body =
        exchange.response_complete() && exchange.head().has_body() && !exchange.body_complete();
    if (!exchange.head().keep_alive || stopping_) {
      if (!exchange.response_complete()) {
        // A cut answer must not look like a complete one: reset instead of a polite end.
        socket_.set_option(asio::socket_base::linger(true, 0));
      }
      break;
    }
  }
  if (unread_body) {
    timed_out_ = false;
    co_await linger();
  }
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace tarn::http
