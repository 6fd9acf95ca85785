#include "proxy/bucket/buckets.h"

#include <algorithm>
#include <iterator>
#include <set>

#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/api/inventory.h"
#include "common/api/mirror_props.h"
#include "common/api/upstream_props.h"
#include "common/base/encoding.h"
#include "common/base/pause.h"
#include "common/base/random.h"
#include "common/cluster/place/slice_plan.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/obs/log.h"
#include "proxy/bucket/bucket_copy.h"
#include "proxy/bucket/bucket_path.h"
#include "proxy/bucket/inventory.h"
#include "proxy/bucket/multi_object.h"
#include "proxy/core/action.h"
#include "proxy/core/named_error.h"
#include "proxy/core/staleness.h"
#include "proxy/jobs/inventory_job.h"
#include "proxy/jobs/recode_job.h"
#include "proxy/jobs/summary.h"
#include "proxy/list/list.h"
#include "proxy/list/list_codec.h"
#include "proxy/object/assign.h"
#include "proxy/object/upstream.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::string_view kMsgpack = "application/msgpack";
/// Longer than a lease: a target that does not acknowledge has lost its own by then.
constexpr std::chrono::seconds kBucketsAcknowledgeWait{15};
constexpr std::chrono::seconds kLookAtEnding{2};
constexpr std::size_t kListingIdLength = 12;

/// The bucket that a path and its query name, its name checked.
Result<api::Bucket> bucket_of(const http::Request& request, const std::string& name) {
  TRY_OK(api::check_bucket_name(name));
  return api::bucket_from(name, request.query());
}

Error not_yet(const std::string& action) {
  return {Errc::unsupported, fmt::format("action '{}' on a bucket belongs to later work", action)};
}

/// The losses that objects of a coded bucket survive in the cluster as it is: "drives=2, nodes=1",
/// and ", zones=1" where placement uses zones.
void add_survives(const Services& services, const cluster::BucketProps& props,
                  http::Response& response) {
  const auto coding = api::coding_of(props);
  if (!coding) return;
  const auto standing = cluster::standing_members(*services.view.state()->ownership->map);
  const auto reach = cluster::slice_reach(standing, coding->k, coding->m, coding->full_copy);
  std::string survives = fmt::format("drives={}, nodes={}", coding->m, reach.nodes);
  if (reach.zones) survives += fmt::format(", zones={}", *reach.zones);
  response.set("Tarn-Survives", survives);
}

Task<Status> answer_done(http::Exchange& exchange) {
  const Status sent = co_await exchange.respond(http::Response(200));
  co_return sent;
}

Task<Status> create_bucket(const Services& services, http::Exchange& exchange, api::Bucket name,
                           const Action& action, const api::Query& query) {
  const bool is_ours = name.provider == "ais" && name.ns_uuid.empty();
  if (!is_ours && !api::has_upstream(name))
    co_return fail(Errc::unsupported,
                   "bucket \"{}\" cannot be made: buckets of this provider belong to later work",
                   name.display());
  const auto state = services.view.state();
  CO_TRY(cluster::BucketProps props,
         is_ours ? cluster::bucket_defaults(state->config) : upstream_defaults(state->config));
  CO_TRY(props, api::with_changes(std::move(props), action.value));
  if (!is_ours) {
    CO_TRY_OK(api::check_upstream(name, props));
    CO_TRY(const bool unseen, query.flag("dont_head_remote_bck"));
    if (!unseen) {
      CO_TRY(props, co_await check_upstream_bucket(services, name, std::move(props)));
    }
  }
  CO_TRY_OK(co_await check_path_is_no_object(services, name));
  CO_TRY(const auto record, co_await cluster::create_bucket(services.store, services.view, name,
                                                            std::move(props), services.clock));
  obs::log("proxy").info("bucket created req={} bucket={} id={} bmd={}", exchange.request_id(),
                         name.display(), raw(record.id), services.view.state()->bmd.version);
  http::Response response(200);
  add_survives(services, record.props, response);
  const Status sent = co_await exchange.respond(std::move(response));
  co_return sent;
}

Task<Status> destroy_bucket(const Services& services, http::Exchange& exchange, api::Bucket name,
                            cluster::Afterwards afterwards) {
  const Status destroyed = co_await cluster::destroy_bucket(services.store, services.view, name,
                                                            kBucketsAcknowledgeWait, afterwards);
  if (!destroyed && destroyed.error().code == Errc::bucket_not_found)
    co_return fail(bucket_not_found(name));
  if (!destroyed && destroyed.error().code == Errc::timeout)
    co_return fail(Errc::unavailable,
                   "bucket \"{}\" is being destroyed, but not all nodes know yet: {}",
                   name.display(), destroyed.error().message);
  CO_TRY_OK(destroyed);
  obs::log("proxy").info("bucket destroyed req={} bucket={} bmd={}", exchange.request_id(),
                         name.display(), services.view.state()->bmd.version);
  const Status sent = co_await answer_done(exchange);
  co_return sent;
}

/// Number of copies that are wanted, on drives and on nodes.
std::pair<int, int> copies_in(const cluster::BucketProps& props) {
  return {api::copies_of(props), api::node_copies_of(props)};
}

/// The body of a make-n-copies: a number, which AIStore's clients may send as text.
Result<int> parse_copies(const json& value) {
  std::optional<std::uint64_t> number;
  if (value.is_number_unsigned()) number = value.get<std::uint64_t>();
  if (value.is_string()) number = parse_u64(value.get<std::string>());
  if (number && *number >= 1 && *number <= api::kCopiesMax) return static_cast<int>(*number);
  return fail(Errc::invalid_argument,
              "make-n-copies cannot make {} copies: a whole number from 1 to {} is allowed",
              value.dump(-1, ' ', false, json::error_handler_t::replace), api::kCopiesMax);
}

/// Kind of the job that a change of properties begins, if any.
enum class Follows : std::uint8_t { what_changed, copies, coding };

/// Answers when every live node acts by the new properties; with the id of a job when that means
/// other copies of the objects, or other slices, or if `follows` demands it.
Task<Status> change_props(const Services& services, http::Exchange& exchange, api::Bucket name,
                          cluster::PropsChange wanted, Follows follows) {
  bool other_copies = follows == Follows::copies;
  bool other_coding = false;
  const auto change = [&](const cluster::BucketProps& props) {
    auto next = wanted(props);
    // A first attempt may have been committed although its answer was lost.
    other_copies = other_copies || (next && copies_in(props) != copies_in(*next));
    other_coding = other_coding || (next && api::coding_of(props) != api::coding_of(*next));
    return next;
  };
  auto changed = co_await cluster::change_bucket(services.store, services.view, name, change);
  if (!changed && changed.error().code == Errc::bucket_not_found)
    co_return fail(bucket_not_found(name));
  CO_TRY_OK(changed);
  const std::uint64_t version = services.view.state()->bmd.version;
  const Status seen = co_await cluster::wait_acknowledged(services.store, services.view, version,
                                                          kBucketsAcknowledgeWait);
  if (!seen)
    co_return fail(Errc::unavailable,
                   "the properties of bucket \"{}\" are set, but not all nodes know yet: {}",
                   name.display(), seen.error().message);
  obs::log("proxy").info("bucket properties set req={} bucket={} bmd={}", exchange.request_id(),
                         name.display(), version);
  const bool recodes = other_coding || follows == Follows::coding;
  if (!other_copies && !recodes) {
    const Status sent = co_await answer_done(exchange);
    co_return sent;
  }
  CO_TRY(const std::string job, recodes ? co_await start_recode(services, name, other_coding)
                                        : co_await start_copies_job(services, name));
  http::Response response(200, http::kText, job);
  if (recodes) add_survives(services, changed->props, response);
  const Status sent = co_await exchange.respond(std::move(response));
  co_return sent;
}

Task<Status> make_copies(const Services& services, http::Exchange& exchange, api::Bucket name,
                         const json& value) {
  CO_TRY(const int copies, parse_copies(value));
  const auto change = [copies](const cluster::BucketProps& props) -> Result<cluster::BucketProps> {
    return api::with_copies(props, copies);
  };
  const Status done = co_await change_props(services, exchange, name, change, Follows::copies);
  co_return done;
}

Task<Status> encode_bucket(const Services& services, http::Exchange& exchange, api::Bucket name,
                           const json& value) {
  const auto change = [&value](const cluster::BucketProps& props) -> Result<cluster::BucketProps> {
    return api::with_coding(props, value);
  };
  const Status done = co_await change_props(services, exchange, name, change, Follows::coding);
  co_return done;
}

/// Buckets of a list, by AIStore's query `presence`.
enum class Presence : std::uint8_t { here, anywhere, outside };

/// Without it, buckets that are here.
Result<Presence> parse_presence(const api::Query& query) {
  const auto text = query.get("presence");
  if (text == "5") return Presence::outside;
  if (text == "0" || text == "1") return Presence::anywhere;
  if (text.empty() || text == "2" || text == "3" || text == "4") return Presence::here;
  return fail(Errc::invalid_argument, "presence={} is none of 0 to 5", text);
}

bool accepts_msgpack(const http::RequestHead& head) {
  return head.field("Accept").find(kMsgpack) != std::string_view::npos;
}

}  // namespace

Task<Status> list_buckets(const Services& services, http::Request& request) {
  CO_TRY(const Action action, co_await read_action(request.exchange));
  if (action.action == "summary-bck") {
    const Status done = co_await summarize(services, request, "", action.value);
    co_return done;
  }
  if (!action.action.empty() && action.action != "list") co_return fail(not_yet(action.action));
  CO_TRY(const api::Bucket wanted, api::bucket_from("", request.query()));
  CO_TRY(const Presence presence, parse_presence(request.query()));
  const bool any_provider = request.query().get("provider").empty();
  const bool any_namespace = request.query().get("namespace").empty();

  const auto is_wanted = [&](const api::Bucket& name) {
    return (any_provider || name.provider == wanted.provider) &&
           (any_namespace || (name.ns_uuid == wanted.ns_uuid && name.ns_name == wanted.ns_name));
  };
  std::set<api::Bucket> found;
  if (presence != Presence::here && (any_provider || api::is_found_by_name(wanted))) {
    CO_TRY(const auto there,
           co_await list_account_buckets(services, any_provider ? "" : wanted.provider));
    std::copy_if(there.begin(), there.end(), std::inserter(found, found.end()), is_wanted);
  }
  const auto state = services.view.state();
  for (const auto& [name, record] : state->bmd.buckets) {
    if (api::is_system_bucket(name)) continue;
    if (presence == Presence::outside)
      found.erase(name);
    else if (is_wanted(name))
      found.insert(name);
  }
  http::Response response(200, http::kJson, json(found).dump() + "\n");
  CO_TRY_OK(mark_staleness(services, request.head(), response));
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

namespace {

/// The buckets of `entries` that the cluster does not have.
Result<std::vector<api::PackedEntry>> without_present(
    const std::vector<api::PackedEntry>& entries) {
  std::vector<api::PackedEntry> out;
  for (const api::PackedEntry& each : entries) {
    TRY(const api::ListEntry entry, api::unpack_entry(each.bytes));
    if ((entry.flags & api::kEntryPresent) == 0) out.push_back(each);
  }
  return out;
}

/// One page, of an inventory if that was asked for; of objects that are not in the cluster, if that
/// was asked for, an entry at least unless it is the last page. `token`: the begin of the next one,
/// "" for none.
Task<Result<api::MergedPage>> page_of(const Services& services, const KnownBucket& known,
                                      ListRequest wanted, std::string& token) {
  if (wanted.inventory) {
    CO_TRY(api::PackedPage listed,
           co_await list_inventory(services, known.record->name, wanted.inventory_name, wanted));
    if (listed.more) token = std::string(listed.entries.back().name);
    api::MergedPage page{std::move(listed.entries), listed.more, {}};
    page.kept.push_back(std::move(listed.bytes));
    co_return page;
  }
  while (true) {
    CO_TRY(api::MergedPage page, co_await list_entries(services, known, wanted));
    token = page.more ? std::string(page.entries.back().name) : "";
    if (!wanted.not_cached) co_return page;
    CO_TRY(page.entries, without_present(page.entries));
    if (!page.entries.empty() || token.empty()) co_return page;
    wanted.after = token;
  }
}

}  // namespace

Task<Status> list_objects(const Services& services, http::Request& request, std::string bucket) {
  CO_TRY(const api::Bucket name, bucket_of(request, bucket));
  CO_TRY(const Action action, co_await read_action(request.exchange));
  if (action.action == "summary-bck") {
    const Status done = co_await summarize(services, request, bucket, action.value);
    co_return done;
  }
  if (is_about_inventory(action.action)) {
    const Status done = co_await act_on_inventory(services, request, name, action);
    co_return done;
  }
  if (!action.action.empty() && action.action != "list") co_return fail(not_yet(action.action));
  CO_TRY(ListRequest wanted, parse_list_request(action.value));
  wanted.inventory_name = request.head().field("Ais-Inv-Name");
  wanted.inventory = wanted.inventory || !wanted.inventory_name.empty() ||
                     request.head().field("Ais-Bucket-Inventory") == "true";
  auto finding =
      wanted.known_only ? find_bucket(services, name) : find_or_adopt_bucket(services, name);
  CO_TRY(const KnownBucket known, co_await std::move(finding));
  if (wanted.not_cached && !api::has_upstream(name))
    co_return fail(Errc::invalid_argument,
                   "list: flags 512 (NOT_CACHED) are for upstream buckets only");
  if (wanted.inventory && (!wanted.recursive || wanted.cached || wanted.not_cached))
    co_return fail(Errc::unsupported,
                   "list: an inventory has all names of its bucket, in the cluster or not: leave "
                   "out the flags 1 (CACHED), 512 (NOT_CACHED) and 2048 (NO_RECURSION)");
  std::string token;
  const auto found = co_await page_of(services, known, wanted, token);
  if (!found && found.error().code == Errc::not_found && !wanted.inventory) {  // its target
    const Status sent = co_await refuse_as(request, found.error(), kNodeNotFound);
    co_return sent;
  }
  if (!found) co_return fail(found.error());
  const api::MergedPage& listed = *found;

  ListPage page;
  page.uuid = wanted.uuid.empty() ? random_id(kListingIdLength) : wanted.uuid;
  page.token = std::move(token);
  page.entries = &listed.entries;
  http::Response response(200);
  if (accepts_msgpack(request.head())) {
    response = http::Response(200, kMsgpack, to_msgpack(page));
  } else {
    CO_TRY(std::string text, to_json_text(page));
    response = http::Response(200, http::kJson, std::move(text));
  }
  CO_TRY_OK(mark_staleness(services, request.head(), response));
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

Task<Status> head_bucket(const Services& services, http::Request& request, std::string bucket) {
  const Status done = co_await head_below(services, request, bucket, "");
  co_return done;
}

Task<Status> head_below(const Services& services, http::Request& request, std::string bucket,
                        std::string prefix) {
  CO_TRY(const api::Bucket name, bucket_of(request, bucket));
  CO_TRY_OK(parse_presence(request.query()));
  CO_TRY(const bool stays_unknown, request.query().flag("dont_add_remote_bck_md"));
  const bool is_asked_here = request.query().get("presence") == "2";
  auto finding = stays_unknown || is_asked_here ? find_bucket(services, name)
                                                : find_or_adopt_bucket(services, name);
  auto found = co_await std::move(finding);
  if (!found && stays_unknown && !is_asked_here && api::is_found_by_name(name) &&
      is_unknown_bucket(found.error())) {
    CO_TRY(auto props, co_await look_upstream(services, name));
    if (!props) co_return fail(found.error());
    http::Response response(200);
    response.set("Ais-Bucket-Props",
                 cluster::aistore_props({BucketId{}, name, std::move(*props), 0, {}, {}}).dump());
    const Status sent = co_await request.exchange.respond(std::move(response));
    co_return sent;
  }
  CO_TRY(const KnownBucket known, std::move(found));
  if (request.query().find("bsumm_remote")) {
    const Status done = co_await bucket_info(services, request, known, std::move(prefix));
    co_return done;
  }
  http::Response response(200);
  response.set("Ais-Bucket-Props", cluster::aistore_props(*known.record).dump());
  CO_TRY_OK(mark_staleness(services, request.head(), response));
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

Task<Status> post_bucket(const Services& services, http::Request& request, std::string bucket) {
  CO_TRY(const api::Bucket name, bucket_of(request, bucket));
  CO_TRY(const Action action, co_await read_action(request.exchange, Action::kListBytesMax));
  if (action.action.empty())
    co_return fail(Errc::invalid_argument,
                   "a POST to a bucket needs a body such as {{\"action\":\"create-bck\"}}");
  if (action.action == "copy-bck") {
    const Status done = co_await copy_bucket(services, request, name, action);
    co_return done;
  }
  if (is_multi_object(action.action)) {
    const Status done = co_await act_on_objects(services, request, name, action);
    co_return done;
  }
  if (is_about_inventory(action.action)) {
    const Status done = co_await act_on_inventory(services, request, name, action);
    co_return done;
  }
  if (action.action == "move-bck") {
    const Status done = co_await rename_bucket(services, request, name);
    co_return done;
  }
  if (action.action == "make-n-copies") {
    CO_TRY(const KnownBucket known, co_await find_bucket(services, name));
    const Status done =
        co_await make_copies(services, request.exchange, known.record->name, action.value);
    co_return done;
  }
  if (action.action == "ec-encode") {
    CO_TRY(const KnownBucket known, co_await find_bucket(services, name));
    const Status done =
        co_await encode_bucket(services, request.exchange, known.record->name, action.value);
    co_return done;
  }
  if (action.action != "create-bck") co_return fail(not_yet(action.action));
  const Status done =
      co_await create_bucket(services, request.exchange, name, action, request.query());
  co_return done;
}

Task<Status> delete_bucket(const Services& services, http::Request& request, std::string bucket) {
  CO_TRY(const api::Bucket name, bucket_of(request, bucket));
  CO_TRY(const Action action, co_await read_action(request.exchange, Action::kListBytesMax));
  const bool evicts = action.action == "evict-remote-bck";
  if (evicts && !api::has_upstream(name))
    co_return fail(Errc::invalid_argument,
                   "bucket \"{}\" is no upstream bucket: it can be destroyed "
                   "(destroy-bck), not evicted",
                   name.display());
  if (action.action == "destroy-bck" && api::has_upstream(name)) {
    const Error why{
        Errc::invalid_argument,
        fmt::format("bucket \"{}\" has an upstream, where nothing is destroyed: evict it "
                    "(evict-remote-bck), which takes it out of the cluster",
                    name.display())};
    const Status sent = co_await refuse_as(request, why, kUnsupported);
    co_return sent;
  }
  if (evicts) {
    CO_TRY(const bool keeps_bucket, request.query().flag("keep_bck_md"));
    if (!keeps_bucket) CO_TRY_OK(co_await remove_inventories(services, name, ""));
    const Status done = co_await destroy_bucket(
        services, request.exchange, name,
        keeps_bucket ? cluster::Afterwards::empty : cluster::Afterwards::gone);
    co_return done;
  }
  if (is_multi_object(action.action)) {
    const Status done = co_await act_on_objects(services, request, name, action);
    co_return done;
  }
  if (is_about_inventory(action.action)) {
    const Status done = co_await act_on_inventory(services, request, name, action);
    co_return done;
  }
  // A DELETE that forgot the object's name must not destroy a bucket.
  if (action.action.empty())
    co_return fail(Errc::invalid_argument,
                   "a DELETE of a bucket needs the body {{\"action\":\"destroy-bck\"}}");
  if (action.action != "destroy-bck") co_return fail(not_yet(action.action));
  const Status done =
      co_await destroy_bucket(services, request.exchange, name, cluster::Afterwards::gone);
  co_return done;
}

Task<Status> patch_bucket(const Services& services, http::Request& request, std::string bucket) {
  CO_TRY(const api::Bucket name, bucket_of(request, bucket));
  CO_TRY(const Action action, co_await read_action(request.exchange));
  if (action.action.empty())
    co_return fail(Errc::invalid_argument,
                   "a PATCH of a bucket needs a body such as {{\"action\":\"set-bprops\","
                   "\"value\":{{\"versioning\":{{\"enabled\":false}}}}}}");
  CO_TRY(const KnownBucket known, co_await find_bucket(services, name));
  if (action.action != "set-bprops" && action.action != "reset-bprops")
    co_return fail(not_yet(action.action));
  const bool is_reset = action.action == "reset-bprops";
  const auto state = services.view.state();
  CO_TRY(const cluster::BucketProps defaults, api::has_upstream(name)
                                                  ? upstream_defaults(state->config)
                                                  : cluster::bucket_defaults(state->config));
  const auto change = [&](const cluster::BucketProps& props) -> Result<cluster::BucketProps> {
    if (is_reset) return api::reset_props(props, defaults);
    return api::with_changes(props, action.value);
  };
  const Status done =
      co_await change_props(services, request.exchange, name, change, Follows::what_changed);
  co_return done;
}

Task<Status> bucket_with_slash(const Services& services, http::Request& request, std::string bucket,
                               std::string rest) {
  if (!rest.empty() && request.head().method == http::Method::head) {
    const Status done = co_await head_below(services, request, std::move(bucket), std::move(rest));
    co_return done;
  }
  if (!rest.empty())
    co_return fail(Errc::invalid_argument,
                   "bucket name '{}/{}' may have letters, digits, '.', '_' and '-' only", bucket,
                   rest);
  Task<Status> (*serve)(const Services&, http::Request&, std::string) = list_objects;
  switch (request.head().method) {
    case http::Method::head: serve = head_bucket; break;
    case http::Method::post: serve = post_bucket; break;
    case http::Method::del: serve = delete_bucket; break;
    case http::Method::patch: serve = patch_bucket; break;
    default: break;
  }
  const Status done = co_await serve(services, request, std::move(bucket));
  co_return done;
}

Task<void> finish_destroying(const Services& services) {
  std::set<BucketId> seen;  // at the last look: the proxy that was asked has them in hand still
  while (true) {
    co_await pause(kLookAtEnding);
    std::set<BucketId> ending;
    const auto state = services.view.state();
    for (const auto& [name, bucket] : state->bmd.buckets) {
      if (!bucket.ending) continue;
      ending.insert(bucket.id);
      if (!seen.contains(bucket.id) || !services.membership.lease().valid()) continue;
      const Status done =
          co_await cluster::finish_destroy(services.store, services.view, name, bucket.id,
                                           state->bmd.version, kBucketsAcknowledgeWait);
      obs::log("proxy").info("destroy of a bucket gone on with bucket={} err={}", name.display(),
                             done ? "" : done.error().message);
    }
    seen = std::move(ending);
  }
}

}  // namespace tarn::proxy
