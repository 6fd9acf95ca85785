#pragma once

#include <arpa/inet.h>
#include <functional>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/base/unique_fd.h"

namespace tarn::test {

/// One connection of a RawServer. Reads wait at most five seconds. Lives on the server's thread,
/// where Catch's assertions must not be used.
class RawPeer {
 public:
  explicit RawPeer(UniqueFd fd) : fd_(std::move(fd)) {}

  void close() { fd_.reset(); }
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  /// Everything up to and with `mark`; what came when the peer closed before it.
  std::string read_until(std::string_view mark) {
    while (received_.find(mark) == std::string::npos)
      if (!receive_more()) return std::exchange(received_, {});
    const auto end = received_.find(mark) + mark.size();
    std::string out = received_.substr(0, end);
    received_.erase(0, end);
    return out;
  }
  std::string read_head() { return read_until("\r\n\r\n"); }
  std::string read_bytes(std::size_t count) {
    while (received_.size() < count)
      if (!receive_more()) break;
    std::string out = received_.substr(0, count);
    received_.erase(0, out.size());
    return out;
  }
  /// True when the other side has closed: nothing else may come.
  bool closed_by_peer() { return received_.empty() && !receive_more() && received_.empty(); }

 private:
  bool receive_more() {
    pollfd wait{fd_.get(), POLLIN, 0};
    if (::poll(&wait, 1, 5'000) <= 0) return false;
    char buffer[4096];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    received_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  UniqueFd fd_;
  std::string received_;
};

/// A server that follows a script, byte by byte. One function serves each connection that it
/// accepts, one after another, on a thread of its own. A connection is closed when its function
/// returns.
class RawServer {
 public:
  using Script = std::vector<std::function<void(RawPeer&)>>;

  explicit RawServer(Script script) : script_(std::move(script)) {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener_.get(), any, size) == 0);
    REQUIRE(::listen(listener_.get(), 16) == 0);
    REQUIRE(::getsockname(listener_.get(), any, &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  /// Waits for the script to end: a test that forgets a connection waits five seconds and fails.
  ~RawServer() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
    listener_.reset();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// Number of connections that came; only after join().
  [[nodiscard]] std::size_t accepted() const { return accepted_; }

 private:
  void run() {
    for (const auto& serve : script_) {
      pollfd wait{listener_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 5'000) <= 0) return;
      RawPeer peer(UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      ++accepted_;
      serve(peer);
    }
  }

  Script script_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::size_t accepted_ = 0;
  std::thread thread_;
};

}  // namespace tarn::test
