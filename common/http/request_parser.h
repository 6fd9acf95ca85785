#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/base/error.h"
#include "common/http/message.h"
#include "common/http/server.h"

namespace tarn::http {

/// Turns the bytes of a connection into requests: the only place where a head or a chunk is
/// understood, by Boost.Beast's parser (there is no second one). Knows no socket, so that a fuzzer
/// can drive it. Usage: fill prepare() and commit() until read_head() returns true, then read the
/// body, then next(). Not thread-safe.
class RequestParser {
 public:
  /// `limits` must outlive it.
  explicit RequestParser(const Limits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Begins the next request on the same connection; bytes that have come already are kept, memory
  /// is not when there are none.
  void next();
  /// Room for the next read; valid until the next call.
  [[nodiscard]] std::span<std::byte> prepare();
  void commit(std::size_t bytes);
  /// Returns the room of prepare(), if no byte has come.
  void rest();
  [[nodiscard]] std::size_t buffered() const;

  /// True: `out` is a request, its framing checked. False: more bytes are needed. invalid_argument,
  /// uri_too_long, header_too_large, unsupported (of the protocol's version): answer and close.
  Result<bool> read_head(RequestHead& out);

  /// Up to into.size() bytes that came after the head, as they are (for Content-Length).
  std::size_t take(std::span<std::byte> into);
  /// Throws up to `bytes` of them away; returns their number.
  std::size_t drop(std::uint64_t bytes);
  struct Decoded {
    std::size_t bytes = 0;
    bool done = false;  ///< the last chunk and the trailer have been read
  };
  /// Body bytes of a chunked request. Neither bytes nor done: more input is needed.
  /// invalid_argument for malformed chunks.
  Result<Decoded> read_chunked(std::span<std::byte> into);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Takes a head that is no longer needed: a later request of this thread gets its memory.
void give_back(RequestHead head);

/// Checks a parsed head for framing that two parsers could read in two ways, and for our limits.
Status check_framing(const RequestHead& head, std::size_t header_bytes, const Limits& limits);

}  // namespace tarn::http
