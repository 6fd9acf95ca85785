#pragma once

// Private to common/http: TLS on one connected, non-blocking socket.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/http/tls_context.h"

struct ssl_st;

namespace tarn::http {

/// The client's side of one TLS session. Never waits: a step that cannot go on returns the needed
/// event. Used by one coroutine at a time.
class TlsSession {
 public:
  enum class Next : std::uint8_t { done, wait_read, wait_write, closed };
  struct Step {
    Next next = Next::done;
    std::size_t bytes = 0;  ///< moved, when done
  };

  /// For the socket `fd`, which stays the caller's, to the server `host` (a name or an address).
  [[nodiscard]] static Result<std::unique_ptr<TlsSession>> open(
      std::shared_ptr<const TlsContext> context, int fd, const std::string& host);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// unauthenticated when the server is not the one that it should be; disconnected for all other
  /// failures, of all steps.
  Result<Step> handshake();
  Result<Step> write(std::span<const std::byte> bytes);
  Result<Step> read(std::span<std::byte> into);
  /// True if decrypted bytes wait to be read.
  [[nodiscard]] bool pending() const;
  [[nodiscard]] const TlsContext* context() const { return context_.get(); }

 private:
  TlsSession(std::shared_ptr<const TlsContext> context, ssl_st* ssl)
      : context_(std::move(context)), ssl_(ssl) {}
  Result<Step> step(int result, std::size_t bytes, std::string_view what);

  std::shared_ptr<const TlsContext> context_;
  ssl_st* ssl_;
};

}  // namespace tarn::http
