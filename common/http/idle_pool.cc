#include "common/http/idle_pool.h"

#include <algorithm>

namespace tarn::http {

using std::chrono::steady_clock;

asio::execution_context::id IdlePool::id;

IdlePool::IdlePool(asio::execution_context& context)
    : service(context), timer_(static_cast<asio::io_context&>(context)) {}

std::shared_ptr<ClientConnection> IdlePool::take(std::string_view authority,
                                                 const TlsContext* tls) {
  for (auto at = idle_.end(); at != idle_.begin();) {
    --at;
    if (at->connection->authority() != authority || at->connection->tls() != tls) continue;
    auto connection = std::move(at->connection);
    at = idle_.erase(at);
    // No request is under way: bytes that can be read are the peer's goodbye.
    if (!connection->readable()) return connection;
  }
  return nullptr;
}

void IdlePool::put(std::shared_ptr<ClientConnection> connection) {
  if (shut_down_) return;
  connection->rest();
  const auto same = [&](const Idle& idle) {
    return idle.connection->authority() == connection->authority();
  };
  if (static_cast<std::size_t>(std::count_if(idle_.begin(), idle_.end(), same)) >= kPerPeerMax)
    idle_.erase(std::find_if(idle_.begin(), idle_.end(), same));
  if (idle_.size() >= kConnectionsMax) idle_.pop_front();
  idle_.push_back({std::move(connection), steady_clock::now()});
  arm();
}

void IdlePool::clear() {
  idle_.clear();
  timer_.cancel();
}

void IdlePool::close_old() {
  const auto now = steady_clock::now();
  while (!idle_.empty() && now - idle_.front().since >= kKeep) idle_.pop_front();
  arm();
}

void IdlePool::arm() {
  if (armed_ || idle_.empty()) return;
  timer_.expires_at(idle_.front().since + kKeep);
  timer_.async_wait([this](const boost::system::error_code&) {
    armed_ = false;
    close_old();
  });
  armed_ = true;
}

void IdlePool::shutdown() {
  shut_down_ = true;
  clear();
}

}  // namespace tarn::http
