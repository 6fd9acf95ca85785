#include "proxy/jobs/inventory_job.h"

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/base/random.h"
#include "common/base/read_json.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/obs/log.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/object_job.h"
#include "proxy/jobs/target_work.h"
#include "proxy/list/list.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::string_view kInventoryPath = "/v1/internal/inventory";
constexpr std::string_view kInventoryListPath = "/v1/internal/inventory/list";
/// AIStore's clients recognize such a job by its id.
constexpr const char* kInventoryIdBegin = "inv-";
constexpr std::size_t kInventoryIdLength = 9;
constexpr http::CallLimits kInventoryLimits{.total = std::chrono::seconds(30)};

/// Makes the bucket when it is not there. It has neither copies nor slices: an inventory can be
/// made anew.
Task<Result<KnownBucket>> make_store(const Services& services) {
  auto found = co_await find_bucket(services, api::inventory_store());
  if (found || !is_unknown_bucket(found.error())) co_return found;
  const auto made = co_await cluster::create_bucket(services.store, services.view,
                                                    api::inventory_store(), {}, services.clock);
  if (!made && made.error().code != Errc::bucket_exists) co_return fail(made.error());
  co_return co_await find_bucket(services, api::inventory_store());
}

/// Asks the owner of an inventory. object_not_found when there is none.
Task<Result<std::string>> ask_owner(const Services& services, const KnownBucket& store,
                                    std::string object, std::string_view path, api::Query query) {
  const cluster::ClusterState& state = *store.state;
  const auto* owner = cluster::owner_of(state.map, store.record->placement_name(object));
  if (owner == nullptr)
    co_return fail(Errc::unavailable, "no target of the cluster owns names now");
  query.set("store", std::to_string(raw(store.record->id)));
  query.set("bmd", std::to_string(state.bmd.version));
  query.set("object", object);
  CO_TRY(auto answer,
         co_await call_node(services, *owner, http::Method::get,
                            std::string(path) + "?" + query.encode(), kInventoryLimits));
  if (answer.status == 200) co_return std::move(answer.body);
  co_return fail(api::errc_of_answer(answer.status, answer.body), "target t[{}]: {}", owner->id,
                 api::error_message_of(answer.body));
}

Result<api::InventoryInfo> info_in(const std::string& body) {
  return parse_json<api::InventoryInfo>(body, Errc::internal, "what a target says of an inventory");
}

Error no_inventory(const api::Bucket& bucket, const std::string& name) {
  return {Errc::not_found,
          fmt::format("bucket {} has no inventory{}: make one with create-inventory",
                      bucket.display(), name.empty() ? "" : " of the name '" + name + "'")};
}

/// Names of the objects with inventories of a bucket; none when there is no `store`.
Task<Result<std::vector<std::string>>> objects_of(const Services& services,
                                                  const KnownBucket& store, api::Bucket bucket) {
  ListRequest request;
  request.prefix = api::inventory_object(bucket, "");
  request.fields = {.size = false};
  CO_TRY(const api::MergedPage page, co_await list_entries(services, store, request));
  std::vector<std::string> out;
  out.reserve(page.entries.size());
  for (const api::PackedEntry& each : page.entries) out.emplace_back(each.name);
  co_return out;
}

/// Removes all of `bucket` but `kept`.
Task<Status> remove_all_but(const Services& services, const KnownBucket& store, api::Bucket bucket,
                            const std::string& kept) {
  CO_TRY(const auto objects, co_await objects_of(services, store, std::move(bucket)));
  for (const std::string& object : objects) {
    if (object == kept) continue;
    CO_TRY_OK(co_await delete_object(services, store, object));
  }
  co_return Status();
}

}  // namespace

Task<Result<std::vector<api::InventoryInfo>>> inventories_of(const Services& services,
                                                             api::Bucket bucket, std::string name) {
  std::vector<api::InventoryInfo> out;
  auto store = co_await find_bucket(services, api::inventory_store());
  if (!store && is_unknown_bucket(store.error())) co_return out;
  if (!store) co_return fail(store.error());
  CO_TRY(const auto objects, co_await objects_of(services, *store, bucket));
  for (const std::string& object : objects) {
    if (!name.empty() && object != api::inventory_object(bucket, name)) continue;
    const auto said = co_await ask_owner(services, *store, object, kInventoryPath, {});
    if (!said && said.error().code == Errc::object_not_found) continue;  // just removed
    if (!said) co_return fail(said.error());
    CO_TRY(auto info, info_in(*said));
    out.push_back(std::move(info));
  }
  co_return out;
}

Task<Result<std::string>> start_inventory(const Services& services, const KnownBucket& bucket,
                                          api::InventoryOrder order) {
  const api::Bucket& name = bucket.record->name;
  if (name.provider == "ht")
    co_return fail(Errc::unsupported, "{}: a web server has no list to make an inventory of",
                   name.display());
  CO_TRY(const KnownBucket store, co_await make_store(services));
  CO_TRY(const auto there, co_await objects_of(services, store, name));
  if (!there.empty() && !order.force)
    co_return fail(
        Errc::invalid_argument,
        "inventory for bucket {} already exists: [{}] (a bucket has one; \"force\": true "
        "puts another one in its place)",
        name.display(), there.front());
  Job job;
  job.kind = "create-inventory";
  job.id = kInventoryIdBegin + random_id(kInventoryIdLength);
  job.bucket = name;
  api::InventoryInfo info;
  info.bucket = name.display();
  info.name = order.name.empty() ? job.id : order.name;
  info.object = api::inventory_object(name, info.name);
  info.prefix = order.prefix;
  job.about = info.name + (info.prefix.empty() ? "" : ", prefix:" + info.prefix);
  job.order = json{{"bucket", raw(bucket.record->id)},
                   {"store", raw(store.record->id)},
                   {"info", info},
                   {"names_of_chunk", order.names_of_chunk}}
                  .dump();
  CO_TRY(const std::string id, co_await services.jobs.start(std::move(job)));
  obs::log("proxy").info("inventory begun job={} bucket={} object={}", id, name.display(),
                         info.object);
  co_return id;
}

Task<Status> drive_inventory(const Services& services, Job job) {
  const json order = json::parse(job.order);
  const auto object = order.at("info").at("obj_name").get<std::string>();
  CO_TRY(const KnownBucket store, co_await make_store(services));
  const auto* owner = cluster::owner_of(store.state->map, store.record->placement_name(object));
  if (owner == nullptr)
    co_return fail(Errc::unavailable, "no target of the cluster owns names now");
  TargetWork work{.path = std::string(kInventoryPath), .order = order, .targets = {owner->id}};
  CO_TRY_OK(co_await work_on_targets(services, job, std::move(work)));
  co_return co_await remove_all_but(services, store, *job.bucket, object);
}

Task<Status> remove_inventories(const Services& services, api::Bucket bucket, std::string name) {
  auto store = co_await find_bucket(services, api::inventory_store());
  if (!store && is_unknown_bucket(store.error()))
    co_return name.empty() ? Status() : fail(no_inventory(bucket, name));
  if (!store) co_return fail(store.error());
  if (name.empty()) co_return co_await remove_all_but(services, *store, bucket, "");
  const auto gone = co_await delete_object(services, *store, api::inventory_object(bucket, name));
  if (!gone && gone.error().code == Errc::object_not_found)
    co_return fail(no_inventory(bucket, name));
  co_return gone;
}

Task<Result<api::PackedPage>> list_inventory(const Services& services, api::Bucket bucket,
                                             std::string name, const ListRequest& request) {
  auto store = co_await find_bucket(services, api::inventory_store());
  if (!store && is_unknown_bucket(store.error())) co_return fail(no_inventory(bucket, name));
  if (!store) co_return fail(store.error());
  std::string object = api::inventory_object(bucket, name);
  if (name.empty()) {
    CO_TRY(const auto objects, co_await objects_of(services, *store, bucket));
    if (objects.empty()) co_return fail(no_inventory(bucket, name));
    object = objects.front();
  }
  api::Query query;
  query.set("prefix", request.prefix);
  query.set("after", request.after);
  query.set("limit", std::to_string(request.limit));
  query.set("props", api::to_text(request.fields));
  auto body = co_await ask_owner(services, *store, object, kInventoryListPath, std::move(query));
  if (!body && body.error().code == Errc::object_not_found)
    co_return fail(no_inventory(bucket, name));
  if (!body) co_return fail(body.error());
  co_return api::decode_page(std::move(*body));
}

}  // namespace tarn::proxy
