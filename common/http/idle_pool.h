#pragma once

// Private to common/http: connections that wait for their next request.

#include <chrono>
#include <list>
#include <memory>
#include <string_view>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/http/client_connection.h"

namespace tarn::http {

/// Idle kept-alive connections of one loop. A service of its io_context, so that it ends with it:
/// whatever the order in which clients and loops are destroyed, no socket outlives its reactor.
/// Used on its loop only.
class IdlePool : public asio::execution_context::service {
 public:
  static constexpr std::size_t kPerPeerMax = 32;
  static constexpr std::size_t kConnectionsMax = 256;
  static constexpr std::chrono::seconds kKeep{30};

  static asio::execution_context::id id;
  explicit IdlePool(asio::execution_context& context);

  /// The connection to `authority`, under `tls` (null: in the clear), that was used last and still
  /// is open; null when there is none.
  [[nodiscard]] std::shared_ptr<ClientConnection> take(std::string_view authority,
                                                       const TlsContext* tls);
  /// Keeps `connection` for kKeep; the oldest ones make room.
  void put(std::shared_ptr<ClientConnection> connection);
  void clear();

 private:
  struct Idle {
    std::shared_ptr<ClientConnection> connection;
    std::chrono::steady_clock::time_point since;
  };
  void shutdown() override;
  void close_old();
  void arm();

  asio::steady_timer timer_;
  std::list<Idle> idle_;  ///< oldest first
  bool armed_ = false;
  bool shut_down_ = false;
};

}  // namespace tarn::http
