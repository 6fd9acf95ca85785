#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/exchange.h"
#include "common/http/loops.h"

namespace tarn::http {

/// Limits of one client (docs/reliability.md, J4 and J5).
struct Limits {
  std::size_t header_bytes_max = 16UL * 1024;      ///< header fields, without the request line: 431
  std::size_t fields_max = 100;                    ///< 431
  std::size_t target_bytes_max = 8UL * 1024;       ///< 414
  std::chrono::milliseconds idle_timeout{75'000};  ///< between requests
  std::chrono::milliseconds header_timeout{10'000};  ///< first byte to end of the header: 408
  std::uint64_t rate_min = 1024;  ///< bytes a second that a waiting peer must move ...
  std::chrono::milliseconds rate_window{30'000};  ///< ... over this long, both ways
  std::size_t connections_max = 15'000;           ///< of a listener; further ones get 503
};

/// Serves one request. Runs on the connection's loop. See Exchange for errors.
using Handler = std::function<Task<Status>(Exchange&)>;
/// Tried before the Handler: answers a request that needs no wait, by Exchange::respond_now, and
/// returns true; or takes no step at all and returns false.
using InstantHandler = std::function<bool(Exchange&)>;
/// Called after each request, for logs and metrics. Must not block.
using Observer = std::function<void(const Exchange&, const Status&, std::chrono::nanoseconds)>;

/// Connections that must not wait for the work of a server's loops: those whose first bytes are
/// `first_bytes` ("GET /heartbeat ") are served on `loop`.
struct Apart {
  Loop* loop = nullptr;
  std::string first_bytes;
};

/// An HTTP/1.1 listener: one accepting socket a loop (SO_REUSEPORT); a connection stays on its
/// loop. With `apart`, its loop alone accepts, and hands all other connections to the other loops,
/// in turn.
class Server {
 public:
  struct Options {
    std::string name;     ///< "public", "relay", "internal": for logs and metrics
    std::string address;  ///< "127.0.0.1:8080", "[::]:0"
    std::string node;     ///< "p[id]": for error bodies
    Limits limits;
    Handler handler;
    Observer observer;
    InstantHandler instant;  ///< may be empty
    Apart apart;             ///< no loop: none
  };
  Server(Loops& loops, Options options);
  ~Server();

  /// Binds and starts to accept. io when the address is taken.
  Status start();
  /// The port that is bound (the one chosen, when 0 was asked for).
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// "http://10.0.0.5:8080", "http://[::1]:8080". A listener at all addresses (0.0.0.0, ::) is
  /// called at `own`, if that is of its kind; else at 127.0.0.1, from this machine.
  [[nodiscard]] std::string url(const std::string& own = "") const;
  /// Stops accepting and closes idle connections at once. For at most `grace` running exchanges may
  /// end and sent bytes arrive; then it resets the rest. Blocks; not from a loop. Idempotent. False
  /// when handlers still run after all: the process is to end without destructors of the objects
  /// that they use.
  bool stop(std::chrono::milliseconds grace);
  /// From now on the waiting times and the least rate of `limits` hold, also for connections that
  /// are open; its other fields are those of the start. Any thread.
  void set_patience(const Limits& limits);
  [[nodiscard]] std::size_t open_connections() const noexcept;
  /// Payload bytes of request bodies that arrived, also those thrown away.
  [[nodiscard]] std::uint64_t body_bytes_received() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarn::http
