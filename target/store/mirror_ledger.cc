#include "target/store/mirror_ledger.h"

#include <algorithm>
#include <exception>

#include <nlohmann/json.hpp>

namespace tarn::target {

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

std::string MirrorLedger::json() const {
  nlohmann::json out{
      {"format", 1}, {"behind", behind}, {"outdated", outdated}, {"misplaced", misplaced}};
  for (const auto& [bucket, copies] : complete)
    out["complete"][std::to_string(raw(bucket))] = copies;
  return out.dump(2) + "\n";
}

Result<MirrorLedger> MirrorLedger::parse(std::string_view text) {
  try {
    const auto in = nlohmann::json::parse(text);
    if (in.at("format") != 1) return fail(Errc::corrupt, "mirror.json has an unknown format");
    MirrorLedger out;
    in.at("behind").get_to(out.behind);
    // Older files lack these.
    out.outdated = in.value("outdated", out.outdated);
    out.misplaced = in.value("misplaced", out.misplaced);
    const auto complete = in.value("complete", nlohmann::json::object());
    for (const auto& [bucket, copies] : complete.items())
      out.complete[BucketId{std::stoull(bucket)}] = copies.get<std::uint8_t>();
    return out;
  } catch (const std::exception& problem) {  // of the JSON, or of a number in it
    return fail(Errc::corrupt, "mirror.json cannot be understood: {}", problem.what());
  }
}

}  // namespace tarn::target
