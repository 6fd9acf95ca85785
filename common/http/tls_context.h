#pragma once

#include <filesystem>
#include <memory>

#include "common/base/error.h"

struct ssl_ctx_st;

namespace tarn::http {

/// Files in PEM that say whom a client trusts and who it is.
struct TlsFiles {
  std::filesystem::path ca;           ///< authorities; empty: those of the system
  std::filesystem::path certificate;  ///< of the client, with its chain; empty: none
  std::filesystem::path key;          ///< of the certificate
};

/// What a client needs to speak TLS (1.2 or newer, OpenSSL). The server's certificate must be
/// signed by a trusted authority and name the host of the URL. Immutable, thread-safe. Whoever uses
/// it ignores SIGPIPE.
class TlsContext {
 public:
  /// Reads the files. invalid_argument, naming the file, for what is missing or does not fit.
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> load(const TlsFiles& files);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  [[nodiscard]] ssl_ctx_st* handle() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

}  // namespace tarn::http
