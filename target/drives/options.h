#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/base/settings.h"
#include "common/cluster/state/client_addresses.h"
#include "common/cluster/state/rhythm.h"
#include "common/cluster/store/etcd_options.h"
#include "common/http/service_settings.h"
#include "target/drive/drive.h"
#include "target/node/move_limits.h"
#include "target/node/scrub_board.h"

namespace tarn::target {

/// Options of a target: the flags of its command line and the settings of --set.
struct Options {
  std::filesystem::path dir;                ///< absolute; node.json
  std::vector<std::string> drives;          ///< absolute, without a trailing slash
  std::vector<std::string> replace_drives;  ///< the old drive there is given up for lost
  std::string listen = "127.0.0.1:8200";
  std::string internal = "127.0.0.1:8201";
  cluster::Advertised advertise;  ///< URLs that clients reach `listen` by; none: what is bound
  std::string zone;               ///< failure domain (cluster::Member::zone); empty: as it was
  std::string join;               ///< "http://127.0.0.1:8180": the proxy's internal listener
  cluster::EtcdOptions etcd;      ///< instead of `join`: where the cluster's state lives
  /// URLs from which this target reads the cluster's state.
  [[nodiscard]] std::vector<std::string> peers() const {
    return etcd.endpoints.empty() ? std::vector{join} : etcd.endpoints;
  }
  std::filesystem::path secret_file;
  std::size_t threads = 0;  ///< event loops; 0: one a core

  http::ServiceSettings service;
  std::chrono::milliseconds shutdown_notice{1'000};
  SpaceLimits space;
  std::uint64_t low_watermark = 75;
  std::uint64_t high_watermark = 90;
  std::uint64_t out_of_space = 95;
  std::uint64_t drive_threads = 8;
  std::string checksum_verify = "cold";
  std::string drive_kind = "auto";
  std::chrono::milliseconds append_timeout{3'600'000};
  std::chrono::milliseconds hang_after = HangWatch::kHangAfter;
  std::chrono::milliseconds drive_out_after{std::chrono::minutes(15)};
  cluster::LeaseTerm lease;
  std::chrono::milliseconds tombstone_keep{std::chrono::hours(24 * 7)};
  std::uint64_t weight = 1;  ///< share of all names beside other targets
  std::string rebalance_enabled = "true";
  std::string resilver_enabled = "true";
  std::uint64_t rebalance_bandwidth = 0;  ///< bytes a second; 0: no limit
  std::uint64_t rebalance_workers = 0;    ///< as MoveLimits
  std::uint64_t rebuild_bandwidth_min = MoveLimits::kRebuildMin;
  std::uint64_t rebuild_bandwidth_max = 0;  ///< bytes a second; 0: no limit
  std::chrono::milliseconds scrub_period = ScrubBoard::kPeriod;
  std::uint64_t scrub_bandwidth = 0;                   ///< bytes a second; 0: no limit
  std::string upstream_endpoints;                      ///< URLs with commas between them
  std::uint64_t upstream_connections = 128;            ///< requests at a time to each server
  std::chrono::milliseconds upstream_timeout{30'000};  ///< for which a server may be silent

  /// Binds every key of `--set`. `this` must outlive `settings`.
  void bind(Settings& settings);
  /// Limits of how full a drive may get, by the settings.
  [[nodiscard]] SpaceLimits limits() const;
  /// Value of the setting drive.kind; nothing for auto.
  [[nodiscard]] std::optional<io::DriveKind> kind() const;
};

/// "1%" or a size as "256MiB".
Status parse_reserve(std::string_view text, SpaceLimits& limits);

}  // namespace tarn::target
