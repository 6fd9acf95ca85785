#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "common/base/settings.h"
#include "common/cluster/state/rhythm.h"
#include "common/cluster/store/etcd_options.h"
#include "common/http/service_settings.h"

namespace tarn::proxy {

/// Options of a proxy: the flags of its command line and the settings of --set.
struct Options {
  std::filesystem::path dir;          ///< absolute; its state: identity, secret, embedded store
  cluster::EtcdOptions etcd;          ///< without endpoints: the embedded store
  std::filesystem::path secret_file;  ///< empty: cluster.secret in `dir`, made when missing
  std::string listen = "127.0.0.1:8080";
  std::string relay = "127.0.0.1:8081";
  std::string internal = "127.0.0.1:8180";
  std::string advertise;    ///< URL that clients reach `listen` by; empty: the bound address
  std::size_t threads = 0;  ///< event loops; 0: one a core

  http::ServiceSettings service;
  std::uint64_t redirect_put_status = 307;
  std::string default_bucket = "data";
  cluster::LeaseTerm lease;
  std::chrono::milliseconds suspect_after{2'000};                 ///< of silence of a target
  std::chrono::milliseconds out_after{std::chrono::minutes(15)};  ///< of targets
  std::chrono::milliseconds proxy_out_after{std::chrono::minutes(15)};
  std::chrono::milliseconds tombstone_keep{std::chrono::hours(24 * 7)};

  std::chrono::milliseconds job_patience{std::chrono::minutes(10)};

  /// Binds every key of `--set`. `this` must outlive `settings`.
  void bind(Settings& settings);
  /// Takes the value of `--meta`: "embedded", or etcd's URLs. invalid_argument for any other text,
  /// and when the flags do not go together.
  Status choose_meta(const std::string& meta);
};

}  // namespace tarn::proxy
