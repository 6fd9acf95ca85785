// The control socket of faultdisk and faultfs: a Unix stream socket, a command a line, an answer a
// line.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

/// Counts how often each fault happened, for tests that must know that theirs did.
class Counters {
 public:
  void add(const std::string& name) { ++values_[name]; }

  [[nodiscard]] std::string json() const {
    std::string text = "{";
    for (const auto& [name, value] : values_) {
      text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + std::to_string(value);
    }
    return text + "}";
  }

 private:
  std::map<std::string, std::uint64_t> values_;
};

/// Answers commands, one connection after another, from `start` until destroyed. It has a thread of
/// its own, because it must answer while every thread of FUSE hangs.
class ControlSocket {
 public:
  explicit ControlSocket(std::function<std::string(const std::string&)> answer)
      : answer_(std::move(answer)) {}
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  ~ControlSocket() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
    if (listener_ >= 0) {
      ::close(listener_);
    }
  }

  /// Binds and listens; false with errno set when that fails. Nothing is answered before `start`.
  bool listen(const char* path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::size_t length = std::strlen(path);
    if (length >= sizeof address.sun_path) {
      errno = ENAMETOOLONG;
      return false;
    }
    std::memcpy(address.sun_path, path, length);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
           ::listen(listener_, 8) == 0;
  }

  void start() {
    thread_ = std::thread([this] { serve(); });
  }

 private:
  [[nodiscard]] bool readable(int fd) const {
    while (!stop_) {
      pollfd ready{fd, POLLIN, 0};
      if (::poll(&ready, 1, 50) > 0) {
        return true;
      }
    }
    return false;
  }

  void serve() {
    while (readable(listener_)) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) {
        continue;
      }
      std::string line;
      char byte = 0;
      while (readable(client) && ::read(client, &byte, 1) == 1) {
        if (byte != '\n') {
          line.push_back(byte);
          continue;
        }
        const auto text = answer_(std::exchange(line, {})) + "\n";
        if (::send(client, text.data(), text.size(), MSG_NOSIGNAL) < 0) {
          break;
        }
      }
      ::close(client);
    }
  }

  std::function<std::string(const std::string&)> answer_;
  int listener_ = -1;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};
