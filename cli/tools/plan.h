#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace tarn::cli {

/// "1GiB" and the like as parse_size() reads it, and decimal units, in which drives and networks
/// are sold: kB, MB, GB, TB, PB, with a point if wanted: "1.5TB". Errors as parse_size().
[[nodiscard]] Result<std::uint64_t> parse_amount(std::string_view text);

/// Requirements that a cluster is planned for. Rates in bytes a second; the defaults are what the
/// drives and networks of ordinary servers do.
struct PlanNeeds {
  std::uint64_t gpus = 8;
  double gpu_rate = 0.3e9;
  std::uint64_t data_bytes = 100'000'000'000'000;
  std::uint64_t copies = 1;
  double drive_rate = 200e6;  ///< one rotational drive read in whole shards
  std::uint64_t drive_bytes = 20'000'000'000'000;
  double fill = 0.9;  ///< share of a drive that data may take: `space.high_watermark`
  std::uint64_t drives_per_node = 12;
  double nic_bits = 100e9;      ///< bits a second of one network port
  double nic_efficiency = 0.9;  ///< share of it that payload gets
  std::uint64_t gpus_per_host = 8;
  std::uint64_t shard_bytes = 1ULL << 30U;
};

/// One rotational drive of a file server that serves many readers at once, bytes a second: the head
/// moves for every one of them.
inline constexpr double kNfsDriveRate = 20e6;

struct Plan {
  double total_rate = 0;  ///< read rate of all GPUs together
  std::uint64_t drives_for_rate = 0;
  std::uint64_t drives_for_size = 0;
  std::uint64_t drives = 0;      ///< the greater of the two
  std::uint64_t nfs_drives = 0;  ///< for the same rate, at kNfsDriveRate
  std::uint64_t nodes = 0;
  std::uint64_t ports_per_node = 0;
  std::uint64_t ports = 0;
  std::uint64_t gpu_hosts = 0;
  std::uint64_t ports_per_gpu_host = 0;
  std::uint64_t shards = 0;
  std::uint64_t shards_per_drive = 0;  ///< rounded down
  double epoch_seconds = 0;            ///< every byte once, at total_rate
  std::vector<std::string> advice;     ///< sentences; empty when nothing is odd
};

/// Drives that `rate` needs, whole ones.
[[nodiscard]] std::uint64_t drives_for(double rate, double drive_rate);

/// invalid_argument for zeros and shares outside 0 to 1, naming the option.
[[nodiscard]] Result<Plan> make_plan(const PlanNeeds& needs);

}  // namespace tarn::cli
