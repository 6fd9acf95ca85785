#include "common/http/tls_context.h"

#include <string>

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace tarn::http {
namespace {

/// OpenSSL's own text for the last error in this thread.
std::string last_problem() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* text = ERR_reason_error_string(code);
  return text == nullptr ? "unknown" : text;
}

Status trust_system(ssl_ctx_st* context) {
  ERR_clear_error();
  if (SSL_CTX_set_default_verify_paths(context) == 1) return {};
  return fail(Errc::invalid_argument, "the system's certificate authorities: {}", last_problem());
}

Status trust(ssl_ctx_st* context, const std::filesystem::path& ca) {
  if (ca.empty()) return {};
  if (SSL_CTX_load_verify_file(context, ca.c_str()) == 1) return {};
  return fail(Errc::invalid_argument, "{}: no certificate authorities in PEM: {}", ca.string(),
              last_problem());
}

Status identify(ssl_ctx_st* context, const TlsFiles& files) {
  if (files.certificate.empty() != files.key.empty())
    return fail(Errc::invalid_argument, "a client certificate and its key go together");
  if (files.certificate.empty()) return {};
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1)
    return fail(Errc::invalid_argument, "{}: no certificate in PEM: {}", files.certificate.string(),
                last_problem());
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1)
    return fail(Errc::invalid_argument, "{}: not the key of {} in PEM: {}", files.key.string(),
                files.certificate.string(), last_problem());
  return {};
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const TlsFiles& files) {
  ERR_clear_error();
  std::shared_ptr<const TlsContext> made(
      new TlsContext(SSL_CTX_new(TLS_client_method()), files.ca.empty()));
  if (made->context_ == nullptr) return fail(Errc::internal, "OpenSSL: {}", last_problem());
  SSL_CTX_set_min_proto_version(made->context_, TLS1_2_VERSION);
  SSL_CTX_set_verify(made->context_, SSL_VERIFY_PEER, nullptr);
  // Bodies are sent in parts from memory that may lie elsewhere when a write is tried again.
  SSL_CTX_set_mode(made->context_,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  TRY_OK(trust(made->context_, files.ca));
  TRY_OK(identify(made->context_, files));
  return made;
}

Result<ssl_ctx_st*> TlsContext::handle() const {
  if (trusts_system_) std::call_once(system_read_, [&] { system_ = trust_system(context_); });
  if (!system_) return fail(system_.error());
  return context_;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

}  // namespace tarn::http
