#include "target/store/mirror_ledger.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"

namespace tarn::target {
namespace {

constexpr const char* kMirrorLedgerUnclear = "mirror.json cannot be understood";

}  // namespace

void MirrorLedger::agree(const MirrorLedger& other) {
  for (auto at = complete.begin(); at != complete.end();) {
    const auto found = other.complete.find(at->first);
    if (found == other.complete.end()) {
      at = complete.erase(at);
      continue;
    }
    at->second = std::min(at->second, found->second);
    ++at;
  }
}

void MirrorLedger::add_evicted(const std::string& drive, const EvictedBuckets& buckets) {
  EvictedBuckets& its = evicted[drive];
  for (const auto& [bucket, generation] : buckets) its[bucket] = std::max(its[bucket], generation);
}

std::string MirrorLedger::json() const {
  nlohmann::json out{
      {"format", 1}, {"behind", stale}, {"outdated", stale_single}, {"misplaced", misplaced}};
  for (const auto& [bucket, copies] : complete)
    out["complete"][std::to_string(raw(bucket))] = copies;
  for (const auto& [drive, buckets] : evicted)
    for (const auto& [bucket, upto] : buckets)
      out["evicted"][drive][std::to_string(raw(bucket))] = {upto.map_version, upto.incarnation,
                                                            upto.counter};
  return out.dump(2) + "\n";
}

Result<MirrorLedger> MirrorLedger::parse(std::string_view text) {
  return read_json(Errc::corrupt, kMirrorLedgerUnclear, [&]() -> Result<MirrorLedger> {
    const auto in = nlohmann::json::parse(text);
    if (in.at("format") != 1) return fail(Errc::corrupt, "mirror.json has an unknown format");
    MirrorLedger out;
    in.at("behind").get_to(out.stale);
    // Older files lack these.
    out.stale_single = in.value("outdated", out.stale_single);
    out.misplaced = in.value("misplaced", out.misplaced);
    const auto complete = in.value("complete", nlohmann::json::object());
    for (const auto& [bucket, copies] : complete.items())
      out.complete[BucketId{std::stoull(bucket)}] = copies.get<std::uint8_t>();
    const auto evicted = in.value("evicted", nlohmann::json::object());
    for (const auto& [drive, buckets] : evicted.items())
      for (const auto& [bucket, upto] : buckets.items())
        out.evicted[drive][BucketId{std::stoull(bucket)}] = {upto.at(0).get<std::uint64_t>(),
                                                             upto.at(1).get<std::uint64_t>(),
                                                             upto.at(2).get<std::uint64_t>()};
    return out;
  });
}

}  // namespace tarn::target
