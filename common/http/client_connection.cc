#include "common/http/client_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "common/base/encoding.h"
#include "common/base/resume.h"
#include "common/http/silence.h"

namespace tarn::http {
namespace {

namespace beast_http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSilenceLookEvery{250};
constexpr std::size_t kClientConnectionHeadReadBytes = 16U << 10U;
constexpr std::size_t kHeadBytesMax = 64U << 10U;
constexpr std::size_t kClientConnectionChunkedReadBytes = 256U << 10U;
constexpr std::size_t kClientConnectionChunkLineBytesMax =
    16U << 10U;  // chunk sizes, extensions, trailers
constexpr std::size_t kClientConnectionTurnBytes =
    2U << 20U;  // before other work of the loop gets its turn

/// A name looked up on the resolver's thread. Shared with it: getaddrinfo cannot be interrupted, so
/// a lookup may outlive the call that no longer waits for it.
struct Lookup {
  explicit Lookup(asio::io_context& context) : resolver(context), done(context) {}
  tcp::resolver resolver;
  asio::steady_timer done;
  bool finished = false;
  error_code error;
  std::vector<tcp::endpoint> endpoints;
};

Task<Result<std::vector<tcp::endpoint>>> resolve(asio::io_context& context, Url url,
                                                 steady_clock::time_point deadline) {
  error_code no_literal;
  const auto address = asio::ip::make_address(url.host, no_literal);
  if (!no_literal) co_return std::vector<tcp::endpoint>{{address, url.port}};
  // Never looked up (RFC 6761, section 6.3): containers often have no /etc/hosts.
  if (url.host == "localhost")
    co_return std::vector<tcp::endpoint>{{asio::ip::address_v4::loopback(), url.port},
                                         {asio::ip::address_v6::loopback(), url.port}};

  const auto lookup = std::make_shared<Lookup>(context);
  lookup->done.expires_at(deadline);
  lookup->resolver.async_resolve(
      url.host, std::to_string(url.port), tcp::resolver::numeric_service,
      [lookup](const error_code& ec, const tcp::resolver::results_type& found) {
        lookup->finished = true;
        lookup->error = ec;
        for (const auto& entry : found) lookup->endpoints.push_back(entry.endpoint());
        lookup->done.cancel();
      });
  const auto [interrupted] = co_await lookup->done.async_wait(kTuple);
  if (!lookup->endpoints.empty()) co_return lookup->endpoints;
  if (lookup->finished)
    co_return fail(Errc::unavailable, "looking up {}: {}", url.host, lookup->error.message());
  if (interrupted) co_return fail(Errc::cancelled, "looking up {}: cancelled", url.host);
  co_return fail(Errc::timeout, "looking up {}: no answer in time", url.host);
}

}  // namespace

struct ClientConnection::Parser {
  boost::beast::flat_buffer buffer;
  std::optional<beast_http::response_parser<beast_http::buffer_body>> http;
};

ClientConnection::ClientConnection(asio::io_context& context)
    : socket_(context), timer_(context), parser_(std::make_unique<Parser>()) {}

ClientConnection::~ClientConnection() = default;

Task<Result<std::shared_ptr<ClientConnection>>> ClientConnection::connect(
    Url url, std::shared_ptr<const TlsContext> tls, steady_clock::time_point deadline) {
  const auto executor = co_await asio::this_coro::executor;
  auto& context = static_cast<asio::io_context&>(asio::query(executor, asio::execution::context));
  // A cancellation reaches only a wait that is under way; a wait that begins later must ask.
  if (co_await is_cancelled()) co_return fail(Errc::cancelled, "{}: cancelled", url.authority());
  auto resolved = co_await resolve(context, url, deadline);
  if (!resolved) co_return fail(resolved.error());
  Error last{Errc::unavailable, fmt::format("{} has no address", url.host)};
  for (const auto& endpoint : *resolved) {
    auto connection = std::make_shared<ClientConnection>(context);
    connection->authority_ = url.authority();
    connection->limits_.hard = deadline;
    Status connected = co_await connection->connect_to(endpoint);
    if (connected && tls) connected = co_await connection->shake_hands(tls, url.host);
    if (connected) co_return connection;
    last = connected.error();
    if (last.code != Errc::unavailable) break;
  }
  co_return fail(std::move(last));
}

Task<Status> ClientConnection::connect_to(tcp::endpoint endpoint) {
  error_code ec;
  socket_.open(endpoint.protocol(), ec);
  // No free file descriptor, as it is: load that will pass.
  if (ec) co_return fail(Errc::unavailable, "connect to {}: {}", authority_, ec.message());
  watch();
  const auto [failed] = co_await socket_.async_connect(endpoint, kTuple);
  waiting_ = false;
  if (expired_) co_return fail(Errc::timeout, "connect to {}: no answer in time", authority_);
  if (failed == asio::error::operation_aborted)
    co_return fail(Errc::cancelled, "connect to {}: cancelled", authority_);
  if (failed) co_return fail(Errc::unavailable, "connect to {}: {}", authority_, failed.message());
  error_code ignored;
  socket_.native_non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
  probe_when_silent(socket_.native_handle());
  co_return Status();
}

void ClientConnection::watch() {
  deadline_ = steady_clock::now() + limits_.stall;
  if (limits_.hard) deadline_ = std::min(deadline_, *limits_.hard);
  waiting_ = true;
  const auto look = next_look();
  if (!armed_ || *armed_ > look) arm(look);
}

/// Time at which the wait that is under way may be over.
steady_clock::time_point ClientConnection::next_look() const {
  if (limits_.is_silent == nullptr) return deadline_;
  return std::min(deadline_, steady_clock::now() + kSilenceLookEvery);
}

void ClientConnection::arm(steady_clock::time_point when) {
  armed_ = when;
  timer_.expires_at(when);
  timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
    if (ec) return;
    if (const auto self = weak.lock()) self->on_timer();
  });
}

void ClientConnection::on_timer() {
  armed_.reset();
  if (!waiting_) return;
  const bool is_silent = limits_.is_silent != nullptr && limits_.is_silent->load();
  if (!is_silent && steady_clock::now() < deadline_) {
    arm(next_look());
    return;
  }
  expired_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

Task<Status> ClientConnection::wait(asio::socket_base::wait_type what) {
  if (expired_) co_return fail(Errc::timeout, "{}: no answer in time", authority_);
  if (co_await is_cancelled()) co_return fail(Errc::cancelled, "{}: cancelled", authority_);
  watch();
  since_yield_ = 0;
  const auto [ec] = co_await socket_.async_wait(what, kTuple);
  waiting_ = false;
  if (expired_) co_return fail(Errc::timeout, "{}: no answer in time", authority_);
  if (ec == asio::error::operation_aborted)
    co_return fail(Errc::cancelled, "{}: cancelled", authority_);
  if (ec) co_return fail(Errc::disconnected, "{}: {}", authority_, ec.message());
  co_return Status();
}

/// On a fast network nothing ever waits: without this, one transfer would have the loop for itself.
Task<void> ClientConnection::yield_after(std::size_t bytes) {
  since_yield_ += bytes;
  if (since_yield_ < kClientConnectionTurnBytes) co_return;
  since_yield_ = 0;
  co_await asio::post(socket_.get_executor(), asio::use_awaitable);
}

Task<Status> ClientConnection::send(std::string_view head, std::span<const std::byte> body) {
  if (tls_) {
    CO_TRY_OK(co_await send_sealed(std::as_bytes(std::span(head))));
    const Status sent = co_await send_sealed(body);
    co_return sent;
  }
  while (!head.empty() || !body.empty()) {
    if (limits_.hard && steady_clock::now() > *limits_.hard)
      co_return fail(Errc::timeout, "{}: not sent in time", authority_);
    std::array<iovec, 2> parts{iovec{const_cast<char*>(head.data()), head.size()},
                               iovec{const_cast<std::byte*>(body.data()), body.size()}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      const auto count = static_cast<std::size_t>(sent);
      const std::size_t of_head = std::min(count, head.size());
      head.remove_prefix(of_head);
      body = body.subspan(count - of_head);
      co_await yield_after(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      co_return fail(Errc::disconnected, "{}: send: {}", authority_, std::strerror(errno));
    CO_TRY_OK(co_await wait(asio::socket_base::wait_write));
  }
  co_return Status();
}

/// Receives the bytes that are there, up to the size of `into`. 0: the peer has closed.
Task<Result<std::size_t>> ClientConnection::receive(std::span<std::byte> into) {
  if (tls_) {
    const auto got = co_await receive_sealed(into);
    co_return got;
  }
  while (true) {
    if (limits_.hard && steady_clock::now() > *limits_.hard)
      co_return fail(Errc::timeout, "{}: no whole answer in time", authority_);
    const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), MSG_DONTWAIT);
    if (got >= 0) {
      const auto count = static_cast<std::size_t>(got);
      if (count > 0) answer_begun_ = true;
      co_await yield_after(count);
      co_return count;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      co_return fail(Errc::disconnected, "{}: receive: {}", authority_, std::strerror(errno));
    CO_TRY_OK(co_await wait(asio::socket_base::wait_read));
  }
}

Task<Result<std::size_t>> ClientConnection::fill_buffer(std::size_t room) {
  const auto space = parser_->buffer.prepare(room);
  const std::span<std::byte> into(static_cast<std::byte*>(space.data()), space.size());
  CO_TRY(const std::size_t got, co_await receive(into));
  parser_->buffer.commit(got);
  co_return got;
}

Task<Status> ClientConnection::parse_head() {
  auto& buffer = parser_->buffer;
  auto& http = *parser_->http;
  while (true) {
    if (buffer.size() > 0) {
      error_code ec;
      const std::size_t used = http.put(buffer.data(), ec);
      buffer.consume(used);
      if (http.is_header_done()) co_return Status();
      if (ec && ec != beast_http::error::need_more)
        co_return fail(Errc::io, "{}: malformed answer: {}", authority_, ec.message());
    }
    CO_TRY(const std::size_t got, co_await fill_buffer(kClientConnectionHeadReadBytes));
    if (got > 0) continue;
    co_return fail(Errc::disconnected, "{}: closed {}", authority_,
                   answer_begun_ ? "in the middle of an answer" : "without an answer");
  }
}

Task<Result<ClientResponse>> ClientConnection::read_head(bool to_head) {
  auto& http = parser_->http.emplace();
  http.header_limit(kHeadBytesMax);
  http.body_limit(boost::none);
  http.skip(to_head);
  answer_done_ = false;
  CO_TRY_OK(co_await parse_head());
  const auto& message = http.get();
  ClientResponse head;
  head.status = message.result_int();
  for (const auto& field : message)
    head.fields.push_back({std::string(field.name_string()), std::string(field.value())});
  CO_TRY_OK(take_framing(head, to_head));
  co_return head;
}

Status ClientConnection::take_framing(const ClientResponse& head, bool to_head) {
  auto& http = *parser_->http;
  http.eager(true);
  content_length_ = parse_u64(head.field("Content-Length"));
  keep_alive_ = http.get().keep_alive();
  body_left_ = 0;
  if (to_head || head.status / 100 == 1 || head.status == 204 || head.status == 304) {
    body_ = Body::none;
  } else if (http.chunked()) {
    body_ = Body::chunked;
    content_length_.reset();
  } else if (content_length_) {
    body_ = Body::counted;
    body_left_ = *content_length_;
  } else if (head.status >= 300) {
    body_ = Body::until_close;  // an error text of a proxy in between, no data
    keep_alive_ = false;
  } else {
    return fail(Errc::io, "{}: an answer without a length, whose end cannot be known", authority_);
  }
  answer_done_ = body_ == Body::none || (body_ == Body::counted && body_left_ == 0);
  return {};
}

Task<Result<std::size_t>> ClientConnection::read_body(std::span<std::byte> into) {
  if (into.empty()) co_return fail(Errc::internal, "no room to read an answer into");
  if (answer_done_) co_return std::size_t{0};
  if (body_ == Body::chunked) {
    CO_TRY(const std::size_t got, co_await read_chunked(into));
    answer_done_ = got == 0;
    co_return got;
  }
  const bool counted = body_ == Body::counted;
  if (counted) into = into.first(std::min<std::uint64_t>(into.size(), body_left_));
  CO_TRY(const std::size_t got, co_await read_plain(into));
  if (got == 0 && counted)
    co_return fail(Errc::disconnected, "{}: closed {} bytes before the end of the answer",
                   authority_, body_left_);
  if (counted) body_left_ -= got;
  answer_done_ = counted ? body_left_ == 0 : got == 0;
  co_return got;
}

Task<Result<std::size_t>> ClientConnection::read_plain(std::span<std::byte> into) {
  auto& buffer = parser_->buffer;
  if (buffer.size() == 0) {
    const auto got = co_await receive(into);
    co_return got;
  }
  const std::size_t count = std::min(into.size(), buffer.size());
  std::memcpy(into.data(), buffer.data().data(), count);
  buffer.consume(count);
  co_return count;
}

Task<Result<std::size_t>> ClientConnection::read_chunked(std::span<std::byte> into) {
  auto& buffer = parser_->buffer;
  auto& http = *parser_->http;
  auto& body = http.get().body();
  body.data = into.data();
  body.size = into.size();
  body.more = true;
  while (true) {
    error_code ec;
    std::size_t used = 0;
    if (buffer.size() > 0) used = http.put(buffer.data(), ec);
    buffer.consume(used);
    if (ec && ec != beast_http::error::need_more && ec != beast_http::error::need_buffer)
      co_return fail(Errc::io, "{}: malformed chunks: {}", authority_, ec.message());
    if (const std::size_t got = into.size() - body.size; got > 0) co_return got;
    if (http.is_done()) co_return std::size_t{0};
    if (used > 0 && buffer.size() > 0) continue;
    if (buffer.size() > kClientConnectionChunkLineBytesMax)
      co_return fail(Errc::io, "{}: a chunk header or trailer of more than {} bytes", authority_,
                     kClientConnectionChunkLineBytesMax);
    CO_TRY(const std::size_t more, co_await fill_buffer(kClientConnectionChunkedReadBytes));
    if (more == 0)
      co_return fail(Errc::disconnected, "{}: closed before the last chunk", authority_);
  }
}

bool ClientConnection::readable() {
  if (parser_->buffer.size() > 0 || (tls_ && tls_->pending())) return true;
  char byte = 0;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool ClientConnection::reusable() const {
  return answer_done_ && keep_alive_ && !expired_ && parser_->buffer.size() == 0;
}

void ClientConnection::rest() {
  parser_->http.reset();
  parser_->buffer = boost::beast::flat_buffer();
  answer_begun_ = answer_done_ = keep_alive_ = false;
  content_length_.reset();
  body_ = Body::none;
  armed_.reset();
  timer_.cancel();
}

}  // namespace tarn::http
