// A connection under TLS: the way of bytes in and out of its session.

#include "common/http/client_connection.h"

namespace tarn::http {

using std::chrono::steady_clock;

/// A peer that hangs up before the session stands has taken no request: unavailable, as if refused.
Task<Status> ClientConnection::shake_hands(std::shared_ptr<const TlsContext> tls,
                                           std::string host) {
  CO_TRY(tls_, TlsSession::open(std::move(tls), socket_.native_handle(), host));
  while (true) {
    const auto step = tls_->handshake();
    if (!step) {
      const Error& error = step.error();
      co_return fail(error.code == Errc::disconnected ? Errc::unavailable : error.code,
                     "connect to {}: {}", authority_, error.message);
    }
    if (step->next == TlsSession::Next::done) co_return Status();
    if (step->next == TlsSession::Next::closed)
      co_return fail(Errc::unavailable, "connect to {}: closed in the handshake", authority_);
    CO_TRY_OK(co_await wait_for(step->next));
  }
}

Task<Status> ClientConnection::wait_for(TlsSession::Next next) {
  const auto what = next == TlsSession::Next::wait_write ? asio::socket_base::wait_write
                                                         : asio::socket_base::wait_read;
  const Status ready = co_await wait(what);
  co_return ready;
}

Task<Status> ClientConnection::send_sealed(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (limits_.hard && steady_clock::now() > *limits_.hard)
      co_return fail(Errc::timeout, "{}: not sent in time", authority_);
    CO_TRY(const auto step, tls_->write(bytes));
    if (step.next == TlsSession::Next::done) {
      bytes = bytes.subspan(step.bytes);
      co_await yield_after(step.bytes);
    } else if (step.next == TlsSession::Next::closed) {
      co_return fail(Errc::disconnected, "{}: closed", authority_);
    } else {
      CO_TRY_OK(co_await wait_for(step.next));
    }
  }
  co_return Status();
}

Task<Result<std::size_t>> ClientConnection::receive_sealed(std::span<std::byte> into) {
  while (true) {
    if (limits_.hard && steady_clock::now() > *limits_.hard)
      co_return fail(Errc::timeout, "{}: no whole answer in time", authority_);
    CO_TRY(const auto step, tls_->read(into));
    if (step.next == TlsSession::Next::closed) co_return std::size_t{0};
    if (step.next == TlsSession::Next::done) {
      answer_begun_ = true;
      co_await yield_after(step.bytes);
      co_return step.bytes;
    }
    CO_TRY_OK(co_await wait_for(step.next));
  }
}

}  // namespace tarn::http
