#include "proxy/jobs/scrub_ages.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tarn::proxy {
namespace {

using nlohmann::json;

std::int64_t time_at(const json& drive, const char* key) {
  return drive.value(key, std::int64_t{0});
}

/// 0: never.
std::int64_t verified_of(const json& drive, BucketId bucket) {
  const bool is_behind =
      drive.value("running", false) && raw(bucket) < drive.value("at_bucket", std::uint64_t{0});
  return time_at(drive, is_behind ? "began_ns" : "verified_ns");
}

/// The least result of `of_drive`; none if that is 0 for any drive.
template <class OfDrive>
std::optional<std::int64_t> oldest(const json& targets, std::int64_t now_ns,
                                   const OfDrive& of_drive) {
  std::int64_t out = now_ns;
  for (const auto& [id, told] : targets.items()) {
    if (!told.contains("drives")) return std::nullopt;
    for (const auto& [path, drive] : told["drives"].items()) {
      const std::int64_t time = of_drive(drive);
      if (time == 0) return std::nullopt;
      out = std::min(out, time);
    }
  }
  return out;
}

}  // namespace

std::optional<std::int64_t> oldest_verified(const json& targets, std::int64_t now_ns) {
  return oldest(targets, now_ns, [](const json& drive) { return time_at(drive, "verified_ns"); });
}

std::optional<std::int64_t> oldest_verified(const json& targets, BucketId bucket,
                                            std::int64_t now_ns) {
  return oldest(targets, now_ns,
                [bucket](const json& drive) { return verified_of(drive, bucket); });
}

std::optional<std::int64_t> unverified_since(const json& targets, BucketId bucket,
                                             std::int64_t now_ns) {
  return oldest(targets, now_ns, [bucket](const json& drive) {
    const std::int64_t verified = verified_of(drive, bucket);
    return verified != 0 ? verified : time_at(drive, "first_ns");
  });
}

}  // namespace tarn::proxy
