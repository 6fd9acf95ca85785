#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "common/base/error.h"

struct ssl_ctx_st;

namespace tarn::http {

/// Files in PEM with the authorities and the identity of a client.
struct TlsFiles {
  std::filesystem::path ca;           ///< authorities; empty: those of the system
  std::filesystem::path certificate;  ///< of the client, with its chain; empty: none
  std::filesystem::path key;          ///< of the certificate
};

/// Context with which a client speaks TLS (1.2 or newer, OpenSSL). The server's certificate must be
/// signed by a trusted authority and name the host of the URL. Immutable, thread-safe. Programs
/// that use it must ignore SIGPIPE.
class TlsContext {
 public:
  /// Reads the files. invalid_argument, naming the file, for a file that is missing or does not
  /// fit. The system's some 140 authorities, which take 50 ms of processor time, are read by
  /// handle().
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> load(const TlsFiles& files);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// For a connection. The first call reads the system's authorities, if these are trusted;
  /// invalid_argument, at each call, when they cannot be read.
  [[nodiscard]] Result<ssl_ctx_st*> handle() const;

 private:
  TlsContext(ssl_ctx_st* context, bool trusts_system)
      : context_(context), trusts_system_(trusts_system) {}
  ssl_ctx_st* context_;
  const bool trusts_system_;
  mutable std::once_flag system_read_;
  mutable Status system_;  // result of reading the system's authorities
};

}  // namespace tarn::http
