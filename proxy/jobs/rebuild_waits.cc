#include "proxy/jobs/rebuild_waits.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <tuple>

#include "common/cluster/admin/daemon.h"
#include "common/cluster/place/hand_over.h"
#include "proxy/core/leads.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr const char* kAbsencesPath = "/v1/internal/absences";
constexpr http::CallLimits kAbsencesLimits{.total = std::chrono::seconds(2)};

double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

json own_absences(const Services& services) {
  json out = json::object();
  const BootTime now = services.clock.boot_time();
  for (const auto& [id, since] : services.absences.since()) {
    const auto away = now - since;
    const auto left = std::chrono::nanoseconds(services.options.out_after) - away;
    out[id] = {{"down_seconds", in_seconds(away)},
               {"out_in_seconds", std::max(0.0, in_seconds(left))}};
  }
  return out;
}

/// Reasons with the same words and place, together.
class WaitSum {
 public:
  void add(const std::string& target, const json& waits) {
    for (const json& each : waits) {
      json& its = by_reason_[{each.at("why").get<std::string>(), each.value("node", ""),
                              each.value("setting", "")}];
      if (its.is_null()) {
        its = each;
        its["objects"] = std::uint64_t{0};
        its["targets"] = json::array();
      }
      its["objects"] =
          its["objects"].get<std::uint64_t>() + each.at("objects").get<std::uint64_t>();
      if (its["targets"].empty() || its["targets"].back() != target)
        its["targets"].push_back(target);
    }
  }
  [[nodiscard]] json list(const json& absent) const {
    json out = json::array();
    for (const auto& [reason, its] : by_reason_) {
      out.push_back(its);
      const auto node = absent.find(its.value("node", ""));
      if (its.at("why") == "waits_for_node" && node != absent.end()) out.back().update(*node);
    }
    return out;
  }

 private:
  using Reason = std::tuple<std::string, std::string, std::string>;
  std::map<Reason, json> by_reason_;
};

/// Shows `take` each kind of work of each target that answered.
template <class Take>
void for_each_work(const json& reports, const Take& take) {
  for (const auto& [id, report] : reports.items()) {
    if (report.contains("state")) take(id, report);
    if (const auto copies = report.find("copies"); copies != report.end()) take(id, *copies);
  }
}

}  // namespace

Task<json> absent_targets(const Services& services) {
  const auto state = services.view.state();
  if (leads(services, *state)) co_return own_absences(services);
  const cluster::Node* primary = state->map.find(state->primary);
  if (primary == nullptr) co_return json::object();
  const auto told =
      co_await call_node(services, *primary, http::Method::get, kAbsencesPath, kAbsencesLimits);
  if (!told || told->status != 200) co_return json::object();
  json out = json::parse(told->body, nullptr, false);
  if (!out.is_object()) co_return json::object();
  co_return out;
}

Task<Status> tell_absences(const Services& services, http::Request& request) {
  const Status sent =
      co_await request.exchange.respond(cluster::json_response(own_absences(services)));
  co_return sent;
}

json sum_of_waits(const json& reports, const json& absent) {
  WaitSum sum;
  // Targets of an older version send no reasons.
  for_each_work(reports, [&](const std::string& id, const json& work) {
    sum.add(id, work.value("waits", json::array()));
  });
  return sum.list(absent);
}

json waits_of_bucket(const json& reports, BucketId bucket, const json& absent) {
  WaitSum sum;
  for_each_work(reports, [&](const std::string& id, const json& work) {
    const json buckets = work.value("buckets", json::object());
    const auto its = buckets.find(std::to_string(raw(bucket)));
    if (its != buckets.end()) sum.add(id, its->at("waits"));
  });
  return sum.list(absent);
}

}  // namespace tarn::proxy
