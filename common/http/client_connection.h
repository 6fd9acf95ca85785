#pragma once

// Private to common/http: one connection that this process opened, and the answers read from it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/client.h"
#include "common/http/tls_session.h"

namespace tarn::http {

/// Times at which a wait for the peer ends in `timeout`: at `hard`, after `stall` without a byte,
/// or when it is known to be silent.
struct WaitLimits {
  std::optional<std::chrono::steady_clock::time_point> hard;
  std::chrono::milliseconds stall{30'000};
  const std::atomic<bool>* is_silent = nullptr;  ///< as CallLimits has it
};

/// A connected socket with a deadline on every wait. Used on one loop by one coroutine at a time.
///
/// Answers are read strictly: one that is cut short, or whose end only the end of the connection
/// would show, is an error and never an end. After an error of any call no byte can be sent; an
/// answer that had arrived before can still be read.
class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  /// Resolves and connects to the first address of `url` that takes us, in the clear when `tls` is
  /// null. unavailable when none does, unauthenticated when its certificate is not accepted.
  [[nodiscard]] static Task<Result<std::shared_ptr<ClientConnection>>> connect(
      Url url, std::shared_ptr<const TlsContext> tls,
      std::chrono::steady_clock::time_point deadline);

  explicit ClientConnection(asio::io_context& context);
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  void set_limits(WaitLimits limits) { limits_ = limits; }
  void set_stall(std::chrono::milliseconds stall) { limits_.stall = stall; }
  [[nodiscard]] const std::string& authority() const { return authority_; }
  /// Null in the clear.
  [[nodiscard]] const TlsContext* tls() const { return tls_ ? tls_->context() : nullptr; }

  Task<Status> send(std::string_view head, std::span<const std::byte> body);

  /// Reads the head of the next answer, interim ones (1xx) too. `to_head`: it answers a HEAD, so no
  /// body follows whatever its length field has.
  Task<Result<ClientResponse>> read_head(bool to_head);
  [[nodiscard]] std::optional<std::uint64_t> content_length() const { return content_length_; }
  /// Up to `into.size()` body bytes, straight from the socket when the answer has a length. 0 is
  /// the end.
  Task<Result<std::size_t>> read_body(std::span<std::byte> into);

  /// True if bytes, or the end of the connection, can be read without waiting.
  [[nodiscard]] bool readable();
  /// True if a byte of an answer to the present request has come.
  [[nodiscard]] bool answer_begun() const { return answer_begun_; }
  /// True if the answer was read to its end and the peer keeps the connection open after it.
  [[nodiscard]] bool reusable() const;
  /// Gets ready for a next request: forgets the last answer, keeps no memory and no timer.
  void rest();

 private:
  struct Parser;
  enum class Body : std::uint8_t { none, counted, chunked, until_close };

  Task<Status> connect_to(asio::ip::tcp::endpoint endpoint);
  Task<Status> shake_hands(std::shared_ptr<const TlsContext> tls, std::string host);
  Task<Status> send_sealed(std::span<const std::byte> bytes);
  Task<Result<std::size_t>> receive_sealed(std::span<std::byte> into);
  Task<Status> wait_for(TlsSession::Next next);
  Task<Status> wait(asio::socket_base::wait_type what);
  Task<Result<std::size_t>> receive(std::span<std::byte> into);
  Task<Result<std::size_t>> fill_buffer(std::size_t room);
  Task<Status> parse_head();
  Task<Result<std::size_t>> read_plain(std::span<std::byte> into);
  Task<Result<std::size_t>> read_chunked(std::span<std::byte> into);
  Task<void> yield_after(std::size_t bytes);
  Status take_framing(const ClientResponse& head, bool to_head);
  void watch();
  void on_timer();
  [[nodiscard]] std::chrono::steady_clock::time_point next_look() const;
  void arm(std::chrono::steady_clock::time_point when);

  asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type> socket_;
  asio::steady_timer timer_;
  std::unique_ptr<TlsSession> tls_;  ///< ends before the socket
  std::string authority_;
  WaitLimits limits_;
  std::unique_ptr<Parser> parser_;

  // The watch over a wait: the timer is moved only when it fires too early, not for every wait.
  std::optional<std::chrono::steady_clock::time_point> armed_;
  std::chrono::steady_clock::time_point deadline_;
  bool waiting_ = false;
  bool expired_ = false;

  Body body_ = Body::none;
  std::optional<std::uint64_t> content_length_;
  std::uint64_t body_left_ = 0;
  bool answer_begun_ = false;
  bool answer_done_ = false;
  bool keep_alive_ = false;
  std::size_t since_yield_ = 0;
};

}  // namespace tarn::http
