// A HEAD at the target: the record in the index answers; no file is opened.

#include "common/api/coding_props.h"
#include "common/api/upstream_props.h"
#include "common/base/encoding.h"
#include "target/drive/record_fields.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/request/admission.h"
#include "target/request/handlers.h"
#include "target/request/head_request.h"
#include "target/request/object_fields.h"
#include "target/request/redirect_to_owner.h"

namespace tarn::target {
namespace {

void add_location(http::Response& response, const TargetNode& node, const Newest& at) {
  const std::string& id = at.holder == nullptr ? node.id : at.holder->id;
  response.set("Ais-Location", fmt::format("t[{}]:mp[{}]", id,
                                           at.drives.empty() ? std::string() : at.drives.front()));
}

/// A list of paths: bare, or in brackets as AIStore's first HEAD has it.
void add_copies(http::Response& response, const Newest& at, bool in_brackets) {
  const std::string paths = fmt::format("{}", fmt::join(at.drives, ","));
  response.set("Ais-Mirror-Copies", std::to_string(at.drives.size()))
      .set("Ais-Mirror-Paths", in_brackets ? "[" + paths + "]" : paths);
}

/// Adds how an object of a coded bucket is kept, in AIStore's words: cut, or in copies
/// ("replicated"). The generation distinguishes one version of it from the next.
void add_coding(http::Response& response, const ObjectRequest& wanted,
                const io::ObjectRecord& record) {
  const auto bucket = api::coding_of(wanted.bucket.props);
  const bool awaits_slices = bucket && bucket->is_coded(record.size);
  if (!record.coding && (!bucket || awaits_slices)) return;
  response.set("Ais-Ec-Generation", std::to_string(record.modified_ns))
      .set("Ais-Ec-Data", std::to_string(record.coding ? record.coding->k : bucket->k))
      .set("Ais-Ec-Parity", std::to_string(record.coding ? record.coding->m : bucket->m))
      .set("Ais-Ec-Replicated", record.coding ? "false" : "true");
}

/// AIStore's first HEAD: everything.
void add_all(http::Response& response, const TargetNode& node, const ObjectRequest& wanted,
             const Newest& at) {
  add_object_fields(response, wanted, *at.record);
  response.set("Ais-Name", wanted.name.object)
      .set("Ais-Bucket-Name", wanted.bucket.name.name)
      .set("Ais-Bucket-Provider", wanted.bucket.name.provider)
      .set("Ais-Present", "true");
  add_location(response, node, at);
  add_copies(response, at, true);
  add_coding(response, wanted, *at.record);
}

/// AIStore's second one. `name` and `size` are in the path and in Content-Length; `chunked` means
/// nothing, there are no such objects.
void add_selected(http::Response& response, const TargetNode& node, const ObjectRequest& wanted,
                  const HeadRequest& asked, const Newest& at) {
  const io::ObjectRecord& record = *at.record;
  response.set("Ais-Present", "true");
  if (asked.wants(HeadRequest::version))
    response.set("Ais-Version", std::to_string(record.version));
  if (asked.wants(HeadRequest::checksum)) add_checksum_fields(response, record);
  if (asked.wants(HeadRequest::atime))
    response.set("Ais-Atime", std::to_string(record.modified_ns));
  if (asked.wants(HeadRequest::custom)) add_custom_fields(response, record);
  if (asked.wants(HeadRequest::location)) add_location(response, node, at);
  if (asked.wants(HeadRequest::copies)) add_copies(response, at, false);
  if (asked.wants(HeadRequest::ec)) add_coding(response, wanted, record);
  if (asked.wants(HeadRequest::last_modified))
    response.set("Last-Modified", http::http_date(modified_seconds(record)));
  if (asked.wants(HeadRequest::etag)) response.set("ETag", record.etag());
}

}  // namespace

Task<Status> head_object(TargetNode& node, http::Request& request) {
  CO_TRY(const ObjectRequest wanted, co_await admit_read(node, request));
  CO_TRY(const HeadRequest asked, parse_head_request(request.query()));
  if (wanted.elsewhere != nullptr) co_return co_await redirect_to_owner(node, request, wanted);
  if (wanted.name.copies > 0) CO_TRY_OK(co_await node.store.mirror().resolve(wanted.name));
  auto found = co_await find_complete(node, wanted);
  const bool has_upstream = api::has_upstream(wanted.bucket.name);
  const bool is_missing = !found || !found->exists();
  if (has_upstream && is_missing) {
    const bool was_stored = co_await node.cold->wait_stored(wanted);
    if (was_stored) found = co_await find_complete(node, wanted);
  }
  const bool asks_upstream = has_upstream && !asked.present_only;
  if (asks_upstream && (!found || !found->exists()))
    co_return co_await node.cold->head(request, wanted, asked.status_only);
  if (!found) {
    const auto* other = co_await answering_replica(node, request, wanted);
    if (other != nullptr) co_return co_await redirect_to_holder(node, request, wanted, *other);
    co_return fail(found.error());
  }
  const Newest& newest = *found;
  if (!newest.exists()) co_return fail(object_missing(wanted));
  if (asks_upstream && wants_confirmed(node.cold, wanted, *newest.record, request)) {
    CO_TRY(const bool current, co_await node.cold->confirm(wanted, *newest.record));
    if (!current) co_return co_await node.cold->head(request, wanted, asked.status_only);
  }
  if (asked.outside_only)
    co_return fail(Errc::invalid_argument,
                   "{} is in the cluster; presence=5 asks for objects that are not",
                   wanted.display());
  CO_TRY(auto unchanged, judge_conditions(request.head(), wanted, *newest.record));
  if (unchanged) co_return co_await request.exchange.respond(std::move(*unchanged));
  http::Response response(200);
  if (!asked.selective && !asked.status_only) {
    add_all(response, node, wanted, newest);
  } else {
    if (!asked.status_only) add_selected(response, node, wanted, asked, newest);
    if (wanted.stale_seconds > 0) response.set("Tarn-Stale", std::to_string(wanted.stale_seconds));
  }
  CO_TRY_OK(co_await request.exchange.begin(std::move(response), newest.record->size));
  co_return co_await request.exchange.finish();
}

}  // namespace tarn::target
