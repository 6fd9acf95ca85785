#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/message.h"
#include "common/http/tls_context.h"

namespace tarn::http {

/// "http://127.0.0.1:8080/base" taken apart.
struct Url {
  std::string host;  ///< a name or an address, without the brackets of an IPv6 literal
  std::uint16_t port = 80;
  std::string path;  ///< with a leading '/', query included
  bool tls = false;  ///< https://

  [[nodiscard]] std::string authority() const;  ///< "host:port", "[::1]:port"
  /// The value of the field Host: the authority, without the port that its scheme has anyway.
  [[nodiscard]] std::string host_field() const;
};
/// invalid_argument for anything but http:// with a host.
[[nodiscard]] Result<Url> parse_url(std::string_view text);
/// As parse_url(), and https:// (port 443) too: for servers that are not nodes of ours.
[[nodiscard]] Result<Url> parse_http_or_https(std::string_view text);

struct ClientRequest {
  Method method = Method::get;
  std::string target;  ///< path and query, encoded
  Fields fields;       ///< Host and the framing fields are added by the client
  std::string body;    ///< for small bodies; see ClientStream for large ones
};

struct ClientResponse {
  unsigned status = 0;
  Fields fields;
  std::string body;
  [[nodiscard]] std::string_view field(std::string_view name) const noexcept {
    return find_field(fields, name);
  }
};

struct CallLimits {
  std::chrono::milliseconds connect{2'000};
  std::chrono::milliseconds total{10'000};  ///< for call(): the whole of it
  std::chrono::milliseconds stall{30'000};  ///< for streams: without a single byte
  std::size_t body_bytes_max = 64U << 20U;  ///< for call(): body_too_large beyond
  /// Null, or becomes true when the peer was found silent in another way: a wait for it then ends
  /// in timeout within a quarter of a second. Must outlive the call.
  const std::atomic<bool>* is_silent = nullptr;
};

/// One request under way whose bodies are streamed. Owned by the caller, used on one loop;
/// destroying it before the answer was read to its end closes the connection. When a peer answers
/// before it has taken the whole body, write() and finish() fail: read_head() then still returns
/// the answer, if one came.
class ClientStream {
 public:
  struct Impl;
  explicit ClientStream(std::unique_ptr<Impl> impl);
  ~ClientStream();
  ClientStream(ClientStream&&) noexcept;
  ClientStream& operator=(ClientStream&&) noexcept;

  /// Sends a part of the request body. Framed in chunks when the request was started without
  /// length.
  Task<Status> write(std::span<const std::byte> bytes);
  /// Ends the request body. internal when it is shorter than announced; nothing is sent then.
  Task<Status> finish();
  /// From now on CallLimits::stall is this.
  void set_stall(std::chrono::milliseconds stall);
  /// Reads the head of the next answer: also of 100 Continue, after which the caller waits for
  /// another.
  Task<Result<ClientResponse>> read_head();
  /// True if an answer (or the end of the connection) can be read without waiting.
  [[nodiscard]] bool answer_ready() const;
  /// The answer's Content-Length, if it has one. Only after read_head().
  [[nodiscard]] std::optional<std::uint64_t> content_length() const;
  /// Up to `into.size()` bytes of the answer's body; 0 is its true end. disconnected when it was
  /// cut.
  Task<Result<std::size_t>> read_some(std::span<std::byte> into);

 private:
  std::unique_ptr<Impl> impl_;
};

/// HTTP/1.1 client for calls between nodes and of the command line. Keeps idle connections, a pool
/// a loop (IdlePool), so objects of this class are cheap and may be copied. Every method runs on a
/// Loop. Errors: unavailable when the connection is refused, timeout, disconnected, cancelled; io
/// for an answer that breaks the rules of HTTP; invalid_argument for a request that would.
class Client {
 public:
  Client() = default;
  /// `tls` is used for URLs of https, which are invalid_argument without.
  explicit Client(std::shared_ptr<const TlsContext> tls) : tls_(std::move(tls)) {}
  /// One whole call. `url` has host and port; its path is ignored. A kept connection that proves
  /// dead before a byte of the answer came is replaced once, for requests without side effects
  /// (GET, HEAD, OPTIONS).
  Task<Result<ClientResponse>> call(Url url, ClientRequest request, CallLimits limits = {});
  /// Sends the head of `request` (its `body` is ignored) and hands over the rest. `length` none:
  /// chunked for PUT, POST and PATCH, no body otherwise.
  Task<Result<ClientStream>> open(Url url, ClientRequest request,
                                  std::optional<std::uint64_t> length, CallLimits limits = {});
  /// Closes the calling loop's idle connections.
  void close_idle();

 private:
  std::shared_ptr<const TlsContext> tls_;
};

}  // namespace tarn::http
