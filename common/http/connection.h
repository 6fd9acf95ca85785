#pragma once

// Private to common/http: one accepted socket and the part of it that the sweeper may use.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/event.h"
#include "common/http/exchange.h"
#include "common/http/request_parser.h"
#include "common/http/server.h"

namespace tarn::http {

using Socket = asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type>;
using SteadyTime = std::chrono::steady_clock::time_point;

/// Times that a listener waits for its peers; may change while it serves (Server::set_patience).
struct Patience {
  std::atomic<std::chrono::milliseconds> idle_timeout;
  std::atomic<std::chrono::milliseconds> header_timeout;
  std::atomic<std::chrono::milliseconds> rate_window;
  std::atomic<std::uint64_t> rate_min;

  void take(const Limits& limits) {
    idle_timeout = limits.idle_timeout;
    header_timeout = limits.header_timeout;
    rate_window = limits.rate_window;
    rate_min = limits.rate_min;
  }
};

/// State that all connections of one listener share.
struct ServerShared {
  Server::Options options;
  Patience patience;
  std::atomic<std::size_t> open{0};
  std::atomic<std::uint64_t> body_bytes{0};
  std::atomic<bool> closing{false};
};

/// Reads requests from one socket and answers them, one after another, on one loop.
class Connection {
 public:
  Connection(ServerShared& shared, Socket socket);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Serves until the connection ends.
  Task<void> run();
  /// Called by the sweeper, on the connection's loop: ends a wait that lasts too long.
  void sweep(SteadyTime now);
  /// True if the peer is waited for in the middle of a request or an answer.
  [[nodiscard]] bool is_timed() const { return phase_ == Phase::head || phase_ == Phase::waiting; }
  /// Ends the connection when it waits for a request and its peer has all answers, or in any case
  /// (`at_once`).
  void stop(bool at_once);

  // For Exchange.
  [[nodiscard]] const std::string& remote_address() const { return remote_; }
  [[nodiscard]] ServerShared& shared() { return shared_; }
  /// Bytes of the body of a request with Content-Length: first those of the head's read, then the
  /// socket.
  Task<Result<std::size_t>> receive(std::span<std::byte> into);
  /// Bytes of a chunked body, through Beast's parser; 0 is its end.
  Task<Result<std::size_t>> receive_chunked(std::span<std::byte> into);
  /// Throws away up to `bytes` body bytes that have already arrived; returns their number.
  std::size_t drop_buffered(std::uint64_t bytes);
  [[nodiscard]] std::size_t buffered() const;
  /// Sends all of `head` and `body`; `more`: further bytes follow at once.
  Task<Status> send(std::string_view head, std::span<const std::byte> body, bool more);
  /// See Exchange.
  void allow_pauses() noexcept { may_pause_ = true; }
  /// Sends as much of both as the socket takes at once; returns the number of bytes. Never waits.
  Result<std::size_t> send_now(std::string_view head, std::span<const std::byte> body);
  Task<Result<std::uint64_t>> send_file(int fd, std::uint64_t offset, std::uint64_t length,
                                        const Exchange::ResidentCheck& resident);
  /// While it is on, only full packets leave. Free if the state stays.
  void cork(bool on);
  /// False as soon as the connection is to stop; true when the time has passed or the event rung.
  Task<bool> pause_until(SteadyTime deadline, EventListener& listener);
  /// True if other connections get their turn now that so many bytes were moved: then yield().
  [[nodiscard]] bool turn_is_over(std::size_t bytes);
  Task<void> yield();

 private:
  enum class Phase : std::uint8_t { idle, head, working, waiting };
  Task<Result<bool>> read_head(RequestHead& out);
  Task<Result<std::size_t>> fill_parser();
  Task<Status> wait(Socket::wait_type what);
  [[nodiscard]] bool serve_at_once(Exchange& exchange);
  Task<void> serve(Exchange& exchange);
  void observe(const Exchange& exchange, const Status& result);
  Task<void> refuse(Error error);
  Task<void> linger(std::optional<std::uint64_t> left);
  Task<void> hand_over_sent();
  void enter(Phase phase) { enter(phase, std::chrono::steady_clock::now()); }
  void enter(Phase phase, SteadyTime now);
  void moved(std::size_t bytes) { window_bytes_ += bytes; }
  void begin_window();
  [[nodiscard]] std::uint64_t moved_in_window();

  ServerShared& shared_;
  Socket socket_;
  std::string remote_;
  RequestParser parser_;
  Phase phase_ = Phase::idle;
  SteadyTime phase_since_;
  SteadyTime served_since_;                       ///< the present exchange
  std::chrono::steady_clock::duration waited_{};  ///< for the peer, in the present rate window
  std::uint64_t window_bytes_ = 0;                ///< came, or went to the socket
  std::uint64_t window_unsent_ = 0;               ///< unacknowledged_bytes() at its begin
  bool in_window_ = false;                        ///< the peer was waited for in this exchange
  bool may_pause_ = false;                        ///< in this exchange
  std::size_t since_yield_ = 0;
  asio::steady_timer* pause_ = nullptr;  ///< of hand_over_sent() while it waits
  EventListener* listens_ = nullptr;     ///< of the caller that is in pause_until()
  bool corked_ = false;
  bool probed_ = false;  ///< probe_when_silent() was called
  bool timed_out_ = false;
  bool stopping_ = false;
  bool cut_ = false;  ///< stop(true) was called
};

}  // namespace tarn::http
