#include "proxy/admin/rebuild_plan.h"

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "common/api/rebuild_plan.h"
#include "common/base/read_json.h"
#include "common/cluster/admin/daemon.h"
#include "proxy/watch/ask_targets.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kRebuildPlanPatience{600};

/// Rates that all targets but `lost` may take together. One without a ceiling makes the sum have
/// none.
api::RebuildRates rates_without(const std::map<std::string, api::RebuildRates>& all,
                                const std::string& lost) {
  api::RebuildRates out;
  bool limited = true;
  for (const auto& [id, rates] : all) {
    if (id == lost) continue;
    limited = limited && rates.ceiling != 0;
    out.ceiling += rates.ceiling;
    out.floor += rates.floor;
  }
  if (!limited) out.ceiling = 0;
  return out;
}

json plan_of(const std::string& id, const json& told,
             const std::map<std::string, api::RebuildRates>& rates) {
  const auto loss = [](const json& stakes, const api::RebuildRates& by) {
    return json(api::cost_of_loss(stakes.get<std::vector<api::Stake>>(), by));
  };
  json drives = json::object();
  for (const auto& [path, stakes] : told.at("drives").items())
    drives[path] = loss(stakes, rates_without(rates, ""));
  return {{"loss", loss(told.at("target"), rates_without(rates, id))},
          {"drives", std::move(drives)}};
}

}  // namespace

Task<Result<http::Response>> tell_rebuild_plan(const Services& services) {
  const json told = co_await ask_targets_for(services, "/v1/internal/stakes", kRebuildPlanPatience);
  json targets = json::object();
  bool complete = true;
  CO_TRY_OK(read_json(Errc::internal, "what targets have at stake", [&] {
    std::map<std::string, api::RebuildRates> rates;
    for (const auto& [id, its] : told.items())
      if (!its.contains("error"))
        rates[id] = {its.at("ceiling").get<std::uint64_t>(), its.at("floor").get<std::uint64_t>()};
    for (const auto& [id, its] : told.items()) {
      complete = complete && !its.contains("error");
      targets[id] = its.contains("error") ? its : plan_of(id, its, rates);
    }
  }));
  co_return cluster::json_response({{"complete", complete}, {"targets", std::move(targets)}});
}

}  // namespace tarn::proxy
