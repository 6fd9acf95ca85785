#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/event.h"
#include "common/http/message.h"

namespace tarn::http {

class Connection;

/// One request and its answer, as a handler sees it. Lives while the handler runs; used on the loop
/// of its connection only. A handler either sends a complete answer or returns an Error. One that
/// comes before the first byte of an answer becomes AIStore's error JSON. A later one cuts the
/// connection, so that a short body can never look complete.
class Exchange {
 public:
  Exchange(Connection& connection, RequestHead head);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] const RequestHead& head() const noexcept { return head_; }
  /// "127.0.0.1:51234"
  [[nodiscard]] const std::string& remote_address() const noexcept;
  /// "p[id]": the node that answers, for error bodies.
  [[nodiscard]] const std::string& node() const noexcept;
  /// The id under which this request is logged, here and after a redirect: 16 hex digits.
  [[nodiscard]] const std::string& request_id() const noexcept { return request_id_; }
  void set_request_id(std::string_view id) { request_id_ = id; }

  /// Reads up to `into.size()` bytes of the body; 0 means that the body was complete. Sends
  /// `100 Continue` before the first read when the client waits for it. invalid_argument for bad
  /// chunks, disconnected when the client goes away, timeout when it is too slow.
  Task<Result<std::size_t>> read_some(std::span<std::byte> into);
  /// The whole of a small body. body_too_large when it has more than `bytes_max`.
  Task<Result<std::string>> read_all(std::size_t bytes_max);
  [[nodiscard]] bool body_complete() const noexcept;
  /// Payload bytes of the body that have been read so far.
  [[nodiscard]] std::uint64_t body_bytes_read() const noexcept { return body_bytes_read_; }

  /// Sends the whole answer. If a body is left unread, the connection is closed afterwards
  /// (half-close at once, at most 64 MiB or 0.5 s of the body discarded).
  Task<Status> respond(Response response);
  /// The same without waiting: bytes that the socket does not take at once are kept for flush().
  void respond_now(const ResponseView& response);
  /// Sends the bytes that respond_now() has left.
  Task<Status> flush();
  /// Starts an answer whose body follows by write() and send_file(): of exactly `length` bytes, or
  /// chunked when there is none (then finish() must end it). For HEAD the body is left out: the
  /// caller must not write.
  Task<Status> begin(Response head_only, std::optional<std::uint64_t> length);
  /// begin(), with the first bytes of the body in the same packet. Returns the number of those on
  /// their way: when the client does not read, fewer than there are, and the rest is to be sent as
  /// after begin(). Not for HEAD. `first` is not needed any more once the call has suspended.
  Task<Result<std::uint64_t>> begin_with(Response head_only, std::uint64_t length,
                                         std::span<const std::byte> first);
  Task<Status> write(std::span<const std::byte> bytes);
  Task<Status> write(std::string_view bytes) { return write(std::as_bytes(std::span(bytes))); }
  /// Predicate that is asked before bytes are sent that may have left the memory while the client
  /// made us wait.
  using ResidentCheck = std::function<bool(std::uint64_t offset, std::uint64_t bytes)>;
  /// Sends `length` bytes of `fd` by sendfile, on the loop: the pages must be resident
  /// (io::is_resident). Stops early when `resident` returns false. Returns the number of bytes that
  /// went out.
  Task<Result<std::uint64_t>> send_file(int fd, std::uint64_t offset, std::uint64_t length,
                                        ResidentCheck resident);
  /// Ends a chunked answer, or checks that a counted one is complete.
  Task<Status> finish();

  [[nodiscard]] bool response_started() const noexcept { return response_started_; }
  [[nodiscard]] bool response_complete() const noexcept { return response_complete_; }
  [[nodiscard]] unsigned response_status() const noexcept { return status_; }
  /// Payload bytes of the answer that have gone to the socket.
  [[nodiscard]] std::uint64_t response_bytes() const noexcept { return response_bytes_; }
  /// True if the listener is being stopped: a handler without an end of its own should end.
  [[nodiscard]] bool closing() const noexcept;
  /// Waits until `deadline`, and no longer than until the event has rung. False at once when the
  /// listener is being stopped.
  Task<bool> pause_until(std::chrono::steady_clock::time_point deadline, EventListener& listener);
  /// Lets the peer pause in the middle of this exchange for as long as it likes. For nodes of the
  /// cluster: they pass bytes on as their own clients take or send them, and hold those to the
  /// least rate.
  void allow_pauses() noexcept;
  /// Closes the connection after this exchange.
  void close_after() noexcept { head_.keep_alive = false; }

 private:
  friend class Connection;
  void settle_unread_body();
  [[nodiscard]] std::string begin_text(const Response& head_only,
                                       std::optional<std::uint64_t> length);
  [[nodiscard]] std::string head_text(const Response& response, std::optional<std::uint64_t> length,
                                      bool has_length);

  Connection& connection_;
  RequestHead head_;
  std::string request_id_;
  std::string unsent_;  ///< of respond_now()
  std::uint64_t body_bytes_read_ = 0;
  std::uint64_t response_bytes_ = 0;
  std::optional<std::uint64_t> response_left_;
  unsigned status_ = 0;
  bool continue_sent_ = false;
  bool body_done_ = false;
  bool response_started_ = false;
  bool response_complete_ = false;
  bool response_chunked_ = false;
};

}  // namespace tarn::http
