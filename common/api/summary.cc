#include "common/api/summary.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tarn::api {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;

}  // namespace

void BucketSummary::add_object(std::uint64_t size) {
  const std::uint64_t on_disk = (size + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  add({.objects = 1,
       .bytes = size,
       .smallest = size,
       .largest = size,
       .bytes_on_disk = on_disk,
       .disks = {}});
}

void BucketSummary::add(const BucketSummary& other) {
  if (other.objects > 0) {
    smallest = objects == 0 ? other.smallest : std::min(smallest, other.smallest);
    largest = std::max(largest, other.largest);
  }
  objects += other.objects;
  bytes += other.bytes;
  bytes_on_disk += other.bytes_on_disk;
  disks.insert(other.disks.begin(), other.disks.end());
}

std::uint64_t BucketSummary::disk_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [name, size] : disks) sum += size;
  return sum;
}

void to_json(nlohmann::json& out, const BucketSummary& summary) {
  out = {{"objects", summary.objects},       {"bytes", summary.bytes},
         {"smallest", summary.smallest},     {"largest", summary.largest},
         {"on_disk", summary.bytes_on_disk}, {"disks", summary.disks}};
}

void from_json(const nlohmann::json& in, BucketSummary& summary) {
  in.at("objects").get_to(summary.objects);
  in.at("bytes").get_to(summary.bytes);
  in.at("smallest").get_to(summary.smallest);
  in.at("largest").get_to(summary.largest);
  in.at("on_disk").get_to(summary.bytes_on_disk);
  in.at("disks").get_to(summary.disks);
}

nlohmann::json aistore_summary(const Bucket& bucket, const BucketSummary& summary) {
  const std::uint64_t disk_bytes = summary.disk_bytes();
  nlohmann::json out = bucket;
  out["ObjCount"] = {{"obj_count_present", std::to_string(summary.objects)},
                     {"obj_count_remote", std::to_string(summary.remote_objects)}};
  out["ObjSize"] = {{"obj_min_size", summary.smallest},
                    {"obj_avg_size", summary.objects == 0 ? 0 : summary.bytes / summary.objects},
                    {"obj_max_size", summary.largest}};
  out["TotalSize"] = {{"size_on_disk", std::to_string(summary.bytes_on_disk)},
                      {"size_all_present_objs", std::to_string(summary.bytes)},
                      {"size_all_remote_objs", std::to_string(summary.remote_bytes)},
                      {"total_disks_size", std::to_string(disk_bytes)}};
  out["used_pct"] = disk_bytes == 0
                        ? 0
                        : static_cast<std::uint64_t>(static_cast<double>(summary.bytes) * 100.0 /
                                                     static_cast<double>(disk_bytes));
  out["is_present"] = true;
  return out;
}

}  // namespace tarn::api
