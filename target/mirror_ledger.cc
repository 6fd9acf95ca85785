#include "target/mirror_ledger.h"

#include <nlohmann/json.hpp>

namespace tarn::target {

std::string MirrorLedger::json() const {
  return nlohmann::json{{"format", 1}, {"behind", behind}, {"outdated", outdated}}.dump(2) + "\n";
}

Result<MirrorLedger> MirrorLedger::parse(std::string_view text) {
  try {
    const auto in = nlohmann::json::parse(text);
    if (in.at("format") != 1) return fail(Errc::corrupt, "mirror.json has an unknown format");
    MirrorLedger out;
    in.at("behind").get_to(out.behind);
    out.outdated = in.value("outdated", out.outdated);  // older files have none
    return out;
  } catch (const nlohmann::json::exception& problem) {
    return fail(Errc::corrupt, "mirror.json cannot be understood: {}", problem.what());
  }
}

}  // namespace tarn::target
