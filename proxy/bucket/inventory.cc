#include "proxy/bucket/inventory.h"

#include <nlohmann/json.hpp>

#include "common/api/inventory.h"
#include "common/api/upstream_props.h"
#include "proxy/core/named_error.h"
#include "proxy/jobs/inventory_job.h"
#include "proxy/object/upstream.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::string_view kCreateInventory = "create-inventory";
constexpr std::string_view kShowInventory = "show-inventory";
constexpr std::string_view kDestroyInventory = "destroy-inventory";

http::Method method_of(std::string_view action) {
  if (action == kCreateInventory) return http::Method::post;
  return action == kShowInventory ? http::Method::get : http::Method::del;
}

Task<Status> show(const Services& services, http::Request& request, const api::Bucket& bucket,
                  const std::string& name) {
  CO_TRY(const auto found, co_await inventories_of(services, bucket, name));
  json out = json::object();
  for (const api::InventoryInfo& each : found) out[each.object] = each;
  co_return co_await request.exchange.respond(http::Response(200, http::kJson, out.dump()));
}

}  // namespace

bool is_about_inventory(const std::string& action) {
  return action == kCreateInventory || action == kShowInventory || action == kDestroyInventory;
}

Task<Status> act_on_inventory(const Services& services, http::Request& request, api::Bucket bucket,
                              Action action) {
  if (request.head().method != method_of(action.action))
    co_return fail(Errc::invalid_argument, "{} comes as a {}", action.action,
                   action.action == kCreateInventory ? "POST"
                   : action.action == kShowInventory ? "GET"
                                                     : "DELETE");
  CO_TRY(const KnownBucket known, co_await find_or_adopt_bucket(services, bucket));
  if (!api::has_upstream(known.record->name)) {
    const Error why{
        Errc::invalid_argument,
        fmt::format("{}: bucket \"{}\" has no upstream: its lists come from the cluster",
                    action.action, bucket.display())};
    const Status sent = co_await refuse_as(request, why, kInvalidProvider);
    co_return sent;
  }
  if (action.action == kShowInventory)
    co_return co_await show(services, request, known.record->name, action.name);
  if (action.action == kDestroyInventory) {
    CO_TRY_OK(co_await remove_inventories(services, known.record->name, action.name));
    co_return co_await answer_empty(request);
  }
  CO_TRY(api::InventoryOrder order, api::parse_inventory_order(action.value));
  CO_TRY(const std::string id, co_await start_inventory(services, known, std::move(order)));
  co_return co_await request.exchange.respond(http::Response(200, http::kText, id));
}

}  // namespace tarn::proxy
