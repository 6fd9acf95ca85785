#include "common/http/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>

#include "common/base/encoding.h"
#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/local_address.h"
#include "common/http/error_response.h"
#include "common/http/silence.h"
#include "common/obs/log.h"

namespace tarn::http {
namespace {

using boost::system::error_code;

constexpr std::size_t kConnectionTurnBytes = 2U << 20U;  // before other connections get their turn
constexpr std::size_t kRequestCost =
    kConnectionTurnBytes / 64;  // a request is work, however few its bytes
constexpr std::size_t kScrapBytes = 128U << 10U;
constexpr std::uint64_t kLingerBytesMax = 64U << 20U;
/// As kTuple, of which every use is a coroutine of its own.
constexpr auto kTupleInPlace = asio::as_tuple(asio::deferred);
constexpr auto kLingerTime = std::chrono::milliseconds(500);
constexpr auto kUnacknowledgedLookEvery = std::chrono::milliseconds(20);

/// Number of bytes that were sent, which the peer's machine has not confirmed. 0 once the
/// connection is lost.
std::uint64_t unacknowledged_bytes(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  int bytes = 0;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
      info.tcpi_state == TCP_CLOSE || ::ioctl(socket, SIOCOUTQ, &bytes) != 0)
    return 0;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

Connection::Connection(ServerShared& shared, Socket socket)
    : shared_(shared),
      socket_(std::move(socket)),
      parser_(shared.options.limits),
      phase_since_(std::chrono::steady_clock::now()) {
  error_code ignored;
  socket_.native_non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  const auto peer = socket_.remote_endpoint(ignored);
  auto address = peer.address();
  // A client that came by IPv4 to a listener at [::].
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  remote_ = authority_text(address.to_string(), peer.port());
  shared_.open.fetch_add(1, std::memory_order_relaxed);
}

Connection::~Connection() { shared_.open.fetch_sub(1, std::memory_order_relaxed); }

void Connection::enter(Phase phase, SteadyTime now) {
  phase_ = phase;
  phase_since_ = now;
}

void Connection::sweep(SteadyTime now) {
  const Patience& patience = shared_.patience;
  const auto spent = now - phase_since_;
  bool late = false;
  switch (phase_) {
    case Phase::idle: late = spent > patience.idle_timeout.load(); break;
    case Phase::head: late = spent > patience.header_timeout.load(); break;
    case Phase::working: break;  // waits for us, not for the peer
    case Phase::waiting: {
      if (may_pause_) break;
      waited_ += spent;
      phase_since_ = now;
      const std::chrono::milliseconds window = patience.rate_window;
      if (waited_ < window) break;
      late =
          moved_in_window() * 1000 < patience.rate_min * static_cast<std::uint64_t>(window.count());
      begin_window();
      break;
    }
  }
  if (!late) return;
  timed_out_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::begin_window() {
  waited_ = {};
  window_bytes_ = 0;
  window_unsent_ = unacknowledged_bytes(socket_.native_handle());
  in_window_ = true;
}

/// Bytes that came, and those that the peer's machine took: the socket takes several megabytes at
/// once, and then none for as long as a slow reader needs for them.
std::uint64_t Connection::moved_in_window() {
  const std::uint64_t given = window_bytes_ + window_unsent_;
  return given - std::min(given, unacknowledged_bytes(socket_.native_handle()));
}

void Connection::stop(bool at_once) {
  stopping_ = true;
  if (at_once) cut_ = true;
  if (pause_ != nullptr) pause_->cancel();
  if (listens_ != nullptr) listens_->wake();
  if (!at_once && phase_ != Phase::idle) return;
  error_code ignored;
  if (at_once) socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.cancel(ignored);
}

Task<Status> Connection::wait(Socket::wait_type what) {
  if (timed_out_) co_return fail(Errc::timeout, "the peer is too slow");
  const Phase before = phase_;
  const bool transfer = before == Phase::working;
  if (transfer && !in_window_) begin_window();
  if (transfer) enter(Phase::waiting);
  // A client whose body stops coming holds a write, and with it a name that moves. Not from the
  // start: idle connections may be many.
  if (transfer && what == Socket::wait_read && !std::exchange(probed_, true))
    probe_when_silent(socket_.native_handle());
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

Task<bool> Connection::pause_until(SteadyTime deadline, EventListener& listener) {
  if (stopping_) co_return false;
  listens_ = &listener;
  co_await listener.wait_until(deadline);
  listens_ = nullptr;
  co_return !stopping_;
}

bool Connection::turn_is_over(std::size_t bytes) {
  since_yield_ += bytes;
  return since_yield_ >= kConnectionTurnBytes;
}

Task<void> Connection::yield() {
  since_yield_ = 0;
  co_await asio::post(socket_.get_executor(), asio::use_awaitable);
}

/// Reads the bytes that are there into the parser. 0: the peer has closed.
Task<Result<std::size_t>> Connection::fill_parser() {
  while (true) {
    const auto space = parser_.prepare();
    const ssize_t got = ::recv(socket_.native_handle(), space.data(), space.size(), MSG_DONTWAIT);
    if (got >= 0) {
      const auto count = static_cast<std::size_t>(got);
      parser_.commit(count);
      moved(count);
      if (turn_is_over(count)) co_await yield();
      co_return count;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      co_return fail(Errc::disconnected, "receive: {}", std::strerror(errno));
    parser_.rest();  // waiting for more of a chunked body holds no buffer
    CO_TRY_OK(co_await wait(Socket::wait_read));
  }
}

/// True: `out` is a request. False: the peer closed (or we stop) between requests.
Task<Result<bool>> Connection::read_head(RequestHead& out) {
  parser_.next();
  if (parser_.buffered() == 0) {
    enter(Phase::idle);
    if (stopping_) co_return false;
    // No byte is there yet: Asio's own receive looks once and then waits, where a wait of ours
    // would look, register anew with epoll, and look again.
    since_yield_ = 0;
    const auto space = parser_.prepare();
    const auto [ec, count] =
        co_await socket_.async_receive(asio::buffer(space.data(), space.size()), kTupleInPlace);
    if (timed_out_ || ec) co_return false;
    parser_.commit(count);
    moved(count);
  }
  enter(Phase::head);
  served_since_ = phase_since_;
  while (true) {
    CO_TRY(const bool complete, parser_.read_head(out));
    if (complete) break;
    const auto got = co_await fill_parser();
    if (!got) {
      if (stopping_) co_return false;
      co_return fail(got.error());
    }
    if (*got == 0) co_return false;
    served_since_ = std::chrono::steady_clock::now();
  }
  if (stopping_) out.keep_alive = false;
  enter(Phase::working, served_since_);
  since_yield_ += kRequestCost;
  in_window_ = false;
  may_pause_ = false;
  co_return true;
}

Task<Result<std::size_t>> Connection::receive(std::span<std::byte> into) {
  if (const std::size_t count = parser_.take(into); count > 0) {
    shared_.body_bytes.fetch_add(count, std::memory_order_relaxed);
    co_return count;
  }
  while (true) {
    const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) {
      const auto count = static_cast<std::size_t>(got);
      moved(count);
      shared_.body_bytes.fetch_add(count, std::memory_order_relaxed);
      if (turn_is_over(count)) co_await yield();
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
  while (true) {
    CO_TRY(const auto decoded, parser_.read_chunked(into));
    if (decoded.bytes > 0 || decoded.done) {
      shared_.body_bytes.fetch_add(decoded.bytes, std::memory_order_relaxed);
      co_return decoded.bytes;
    }
    CO_TRY(const std::size_t more, co_await fill_parser());
    if (more == 0)
      co_return fail(Errc::disconnected, "the client closed before the end of its body");
  }
}

std::size_t Connection::drop_buffered(std::uint64_t bytes) {
  const std::size_t count = parser_.drop(bytes);
  shared_.body_bytes.fetch_add(count, std::memory_order_relaxed);
  return count;
}

std::size_t Connection::buffered() const { return parser_.buffered(); }

void Connection::cork(bool on) {
  if (std::exchange(corked_, on) == on) return;
  // Stronger than TCP_NODELAY, which stays on: when the cork goes, all that is left leaves at once.
  const int value = on ? 1 : 0;
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_CORK, &value, sizeof value);
}

namespace {

/// One sendmsg; errno has the reason when it returns -1.
ssize_t send_once(int fd, std::string_view head, std::span<const std::byte> body, int flags) {
  std::array<iovec, 2> parts{iovec{const_cast<char*>(head.data()), head.size()},
                             iovec{const_cast<std::byte*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = head.empty() ? &parts[1] : parts.data();
  message.msg_iovlen = head.empty() || body.empty() ? 1 : 2;
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
}

}  // namespace

Result<std::size_t> Connection::send_now(std::string_view head, std::span<const std::byte> body) {
  while (true) {
    const ssize_t sent = send_once(socket_.native_handle(), head, body, 0);
    if (sent >= 0) {
      const auto count = static_cast<std::size_t>(sent);
      moved(count);
      since_yield_ += count;
      return count;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (errno != EINTR) return fail(Errc::disconnected, "send: {}", std::strerror(errno));
  }
}

Task<Status> Connection::send(std::string_view head, std::span<const std::byte> body, bool more) {
  while (!head.empty() || !body.empty()) {
    const ssize_t sent = send_once(socket_.native_handle(), head, body, more ? MSG_MORE : 0);
    if (sent >= 0) {
      auto left = static_cast<std::size_t>(sent);
      moved(left);
      if (turn_is_over(left)) co_await yield();
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
    const ssize_t sent = ::sendfile(socket_.native_handle(), fd, &at,
                                    std::min<std::uint64_t>(left, kConnectionTurnBytes));
    if (sent > 0) {
      left -= static_cast<std::uint64_t>(sent);
      moved(static_cast<std::size_t>(sent));
      if (turn_is_over(static_cast<std::size_t>(sent))) co_await yield();
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
Task<void> Connection::refuse(Error error) {
  RequestHead nothing;
  nothing.keep_alive = false;
  enter(Phase::working);
  timed_out_ = false;
  if (error.code == Errc::timeout) error.code = Errc::request_timeout;
  Exchange exchange(*this, std::move(nothing));
  static_cast<void>(co_await exchange.respond(error_response(exchange, error)));
}

/// Most requests of a proxy need no coroutine. False: serve() has to do, or to finish, the work.
bool Connection::serve_at_once(Exchange& exchange) {
  if (!shared_.options.instant) return false;
  try {
    if (!shared_.options.instant(exchange)) return false;
  } catch (const std::exception& problem) {
    obs::log("http").error("handler threw req={} err={}", exchange.request_id(), problem.what());
    return false;
  }
  if (!exchange.response_complete()) return false;
  observe(exchange, {});
  return true;
}

void Connection::observe(const Exchange& exchange, const Status& result) {
  if (shared_.options.observer)
    shared_.options.observer(exchange, result, std::chrono::steady_clock::now() - served_since_);
}

/// Error of an exchange whose handler threw. One that was cancelled with its node is no fault.
Error error_thrown(const Exchange& exchange, const std::exception& problem) {
  const auto* of_asio = dynamic_cast<const boost::system::system_error*>(&problem);
  if (of_asio != nullptr && of_asio->code() == asio::error::operation_aborted)
    return {Errc::unavailable, "this node is stopping; try again"};
  obs::log("http").error("handler threw req={} err={}", exchange.request_id(), problem.what());
  return {Errc::internal, fmt::format("internal error, request {}", exchange.request_id())};
}

Task<void> Connection::serve(Exchange& exchange) {
  Status result;
  try {
    if (exchange.response_started())
      result = co_await exchange.flush();
    else
      result = co_await shared_.options.handler(exchange);
  } catch (const std::exception& problem) {
    result = fail(error_thrown(exchange, problem));
  }
  if (!result && !exchange.response_started() && result.error().code != Errc::disconnected) {
    Error error = result.error();
    const bool waits_for_body = exchange.head().has_body() && !exchange.body_complete();
    if (error.code == Errc::timeout && waits_for_body) error.code = Errc::request_timeout;
    Response response = error_response(exchange, error);
    // A body of unknown length would be read as the next request.
    if (result.error().code == Errc::length_required) exchange.close_after();
    timed_out_ = false;
    const Status sent = co_await exchange.respond(std::move(response));
    if (!sent) exchange.close_after();
  } else if (result && !exchange.response_complete()) {
    obs::log("http").error("handler sent no complete answer req={} target={}",
                           exchange.request_id(), exchange.head().target);
    exchange.close_after();
  }
  if (!exchange.response_complete()) exchange.close_after();
  observe(exchange, result);
}

/// Lets an answer arrive although the client is still sending: many send all of a body before they
/// read, and closing at once would reset the connection and lose the answer. `left` is the rest of
/// the body. Bytes read are bounded, and the time is too; a client that sends more finds its send
/// buffer full and the answer waiting. Go's net/http needs that: it loses the answer when the
/// connection is closed.
Task<void> Connection::linger(std::optional<std::uint64_t> left) {
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
  const std::uint64_t wanted = std::min(left.value_or(kLingerBytesMax), kLingerBytesMax);
  std::uint64_t dropped = drop_buffered(wanted);
  enter(Phase::working);
  thread_local std::array<std::byte, kScrapBytes> scrap;  // shared by all connections: never read
  while (!expired && dropped < wanted) {
    const auto got = co_await receive(scrap);
    if (!got) break;
    dropped += *got;
  }
  if (!expired && dropped >= kLingerBytesMax)
    co_await socket_.async_wait(Socket::wait_error,
                                kTuple);  // returns when the peer is gone, or the timer
  timer.cancel();
  co_await asio::post(socket_.get_executor(), asio::use_awaitable);  // the timer's handler has run
}

/// Waits until the peer's machine has all that was sent. The kernel would go on after the end of
/// the process, but the network of a container ends with it. The peer would then wait for the rest
/// until its keepalive ends. A connection with bytes not taken until stop(true) is reset, so that
/// the peer sees it.
Task<void> Connection::hand_over_sent() {
  const int fd = socket_.native_handle();
  if (unacknowledged_bytes(fd) == 0) co_return;
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  asio::steady_timer timer(socket_.get_executor());
  pause_ = &timer;
  while (!cut_ && unacknowledged_bytes(fd) > 0) {
    timer.expires_after(kUnacknowledgedLookEvery);
    co_await timer.async_wait(kTuple);
  }
  pause_ = nullptr;
  if (unacknowledged_bytes(fd) > 0) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
}

Task<void> Connection::run() {
  co_await asio::this_coro::throw_if_cancelled(false);
  bool unread_body = false;
  std::optional<std::uint64_t> left;
  while (true) {
    RequestHead head;
    const auto got = co_await read_head(head);
    if (!got) {
      const Error& error = got.error();
      if (error.code == Errc::disconnected) break;
      co_await refuse(error);
      unread_body = true;
      left.reset();  // of the request before
      break;
    }
    if (!*got) break;
    Exchange exchange(*this, std::move(head));
    if (!serve_at_once(exchange)) co_await serve(exchange);
    unread_body =
        exchange.response_complete() && exchange.head().has_body() && !exchange.body_complete();
    left = exchange.head().content_length;
    if (left) *left -= exchange.body_bytes_read();
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
    co_await linger(left);
  }
  if (stopping_ && SAFETY("safety.last_bytes")) co_await hand_over_sent();
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace tarn::http
