#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket.h"

namespace tarn::api {

/// Content of a bucket, or of the part of it below a prefix: on one target, or on all together.
struct BucketSummary {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t smallest = 0;       ///< bytes; 0 when there are no objects
  std::uint64_t largest = 0;        ///< bytes
  std::uint64_t bytes_on_disk = 0;  ///< each object rounded up to whole blocks of 4 KiB
  /// Sizes of the targets' file systems. Each has a name that no other has, on any machine, so that
  /// one that several drives or targets share counts once.
  std::map<std::string, std::uint64_t> disks;
  /// Objects that upstream has, those included that the cluster has as well; 0 unless asked for.
  std::uint64_t remote_objects = 0;
  std::uint64_t remote_bytes = 0;

  bool operator==(const BucketSummary&) const = default;
  /// Takes one object in.
  void add_object(std::uint64_t size);
  /// Takes another target's part in. Targets do not count the objects that upstream has.
  void add(const BucketSummary& other);
  [[nodiscard]] std::uint64_t disk_bytes() const;
};
/// As nodes send it to each other.
void to_json(nlohmann::json& out, const BucketSummary& summary);
void from_json(const nlohmann::json& in, BucketSummary& summary);
/// AIStore's BsummResult (docs/api.md).
[[nodiscard]] nlohmann::json aistore_summary(const Bucket& bucket, const BucketSummary& summary);

}  // namespace tarn::api
