#include "common/http/tls_session.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace tarn::http {
namespace {

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> ignored{};
  return ::inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
}

/// The certificate must name this host.
bool expect_host(ssl_st* ssl, const std::string& host) {
  if (is_address(host))
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
  return SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

std::string reason(unsigned long code, int number) {
  const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
  if (text != nullptr) return text;
  return number == 0 ? "the connection ended" : std::strerror(number);
}

}  // namespace

Result<std::unique_ptr<TlsSession>> TlsSession::open(std::shared_ptr<const TlsContext> context,
                                                     int fd, const std::string& host) {
  TRY(ssl_ctx_st* const handle, context->handle());
  ssl_st* ssl = SSL_new(handle);
  if (ssl == nullptr) return fail(Errc::internal, "OpenSSL has no memory for a session");
  std::unique_ptr<TlsSession> made(new TlsSession(std::move(context), ssl));
  if (SSL_set_fd(ssl, fd) != 1 || !expect_host(ssl, host))
    return fail(Errc::internal, "OpenSSL does not take the host '{}'", host);
  return made;
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

Result<TlsSession::Step> TlsSession::step(int result, std::size_t bytes, std::string_view what) {
  const int number = errno;
  if (result > 0) return Step{Next::done, bytes};
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ: return Step{Next::wait_read, 0};
    case SSL_ERROR_WANT_WRITE: return Step{Next::wait_write, 0};
    case SSL_ERROR_ZERO_RETURN: return Step{Next::closed, 0};
    default: break;
  }
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  return fail(Errc::disconnected, "TLS {}: {}", what, reason(code, number));
}

Result<TlsSession::Step> TlsSession::handshake() {
  ERR_clear_error();
  auto done = step(SSL_connect(ssl_), 0, "handshake");
  const long verified = SSL_get_verify_result(ssl_);
  if (!done && verified != X509_V_OK)
    return fail(Errc::unauthenticated, "its certificate is not accepted: {}",
                X509_verify_cert_error_string(verified));
  return done;
}

Result<TlsSession::Step> TlsSession::write(std::span<const std::byte> bytes) {
  ERR_clear_error();
  std::size_t moved = 0;
  const int result = SSL_write_ex(ssl_, bytes.data(), bytes.size(), &moved);
  return step(result, moved, "write");
}

Result<TlsSession::Step> TlsSession::read(std::span<std::byte> into) {
  ERR_clear_error();
  std::size_t moved = 0;
  const int result = SSL_read_ex(ssl_, into.data(), into.size(), &moved);
  return step(result, moved, "read");
}

bool TlsSession::pending() const { return SSL_pending(ssl_) > 0; }

}  // namespace tarn::http
