#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket.h"
#include "common/base/error.h"

namespace tarn::api {

// Inventories: snapshots of the list of a bucket upstream, for lists that do not ask upstream
// (AIStore's native bucket inventories, docs/api.md).

/// The bucket that the cluster keeps inventories in. Clients cannot name it.
[[nodiscard]] Bucket inventory_store();
/// True for the buckets that the cluster makes for itself.
[[nodiscard]] bool is_system_bucket(const Bucket& bucket);
/// The object of that bucket with an inventory of `bucket`: "aws/@#/photos/inv-1".
[[nodiscard]] std::string inventory_object(const Bucket& bucket, std::string_view name);

/// An inventory as it was ordered.
struct InventoryOrder {
  static constexpr std::uint64_t kNamesOfChunkMin = 2;
  static constexpr std::uint64_t kNamesOfChunk = 20'000;
  static constexpr std::uint64_t kNamesOfChunkMax = 640'000;

  std::string name;  ///< empty: that of its job
  std::string prefix;
  std::uint64_t names_of_chunk = kNamesOfChunk;
  bool force = false;  ///< in place of those that there are
};
/// Reads the "value" of create-inventory. invalid_argument, naming the key.
[[nodiscard]] Result<InventoryOrder> parse_inventory_order(const nlohmann::json& value);

/// Description of an inventory. The keys of its JSON are AIStore's.
struct InventoryInfo {
  std::string bucket;  ///< "s3://photos"
  std::string name;
  std::string object;
  std::string prefix;
  std::uint64_t bytes = 0;
  std::int64_t started_ns = 0;  ///< wall clock
  std::int64_t finished_ns = 0;
  std::uint64_t names = 0;
  std::uint64_t map_version = 0;
  std::uint64_t chunks = 0;
  std::uint64_t targets = 0;  ///< of the cluster
};
void to_json(nlohmann::json& out, const InventoryInfo& info);
/// Throws nlohmann's exceptions.
void from_json(const nlohmann::json& in, InventoryInfo& info);

}  // namespace tarn::api
