#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/store/meta_store.h"
#include "common/http/tls_context.h"

namespace tarn::cluster {

/// Address of etcd and our proof of identity there: the same flags of all programs.
struct EtcdOptions {
  std::vector<std::string> endpoints;  ///< "http://10.0.0.5:2379" or https; empty: no etcd
  http::TlsFiles tls;
  std::string user;                     ///< empty: none
  std::filesystem::path password_file;  ///< its first line

  /// The flags beside the one that names the endpoints; `App` is CLI11's, which common does not
  /// know. `this` must outlive it.
  template <class App>
  void bind(App& app) {
    app.add_option("--meta-ca", tls.ca,
                   "authorities that sign etcd's certificates, PEM (default: the system's)");
    app.add_option("--meta-cert", tls.certificate, "certificate of this program for etcd, PEM");
    app.add_option("--meta-key", tls.key, "key of --meta-cert, PEM");
    app.add_option("--meta-user", user, "user of etcd");
    app.add_option("--meta-password-file", password_file,
                   "file whose first line is the user's password; mode 600");
  }
};

/// The URLs of "http://a:2379,http://b:2379". invalid_argument for other words.
[[nodiscard]] Result<std::vector<std::string>> parse_endpoints(std::string_view text);

/// The store that `options` name; no call is made yet. invalid_argument for options that do not go
/// together and files that cannot be used.
[[nodiscard]] Result<std::unique_ptr<MetaStore>> open_etcd(const EtcdOptions& options);

}  // namespace tarn::cluster
