#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace tarn::http {

/// So that a TCP connection whose other end is gone without a word does not look idle for ever:
/// probes after 3 s of silence, every second, and an error when three had no answer, or one the
/// answer that nobody knows the connection.
inline void probe_when_silent(int socket) {
  const auto set = [socket](int level, int option, int value) {
    (void)setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 3);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace tarn::http
