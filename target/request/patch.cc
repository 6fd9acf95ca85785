// A PATCH at the target: under the name's lock, the object's custom metadata is merged or replaced;
// drive_metadata.cc has the order of the commit. Of a bucket with an upstream it is changed there.

#include "common/api/action.h"
#include "common/api/upstream_props.h"
#include "common/obs/log.h"
#include "target/commit/incoming.h"
#include "target/drive/block_writer.h"
#include "target/drive/record_fields.h"
#include "target/replica/fetch_to_owner.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/request/admission.h"
#include "target/request/handlers.h"
#include "target/request/redirect_to_owner.h"

namespace tarn::target {
namespace {

/// All replicas get the object once more, with its new metadata: there a change of what lies on a
/// drive cannot wait for the other replicas. The caller holds the name's lock.
Task<Result<Generation>> store_anew(TargetNode& node, const ObjectRequest& wanted,
                                    api::CustomMetadata custom) {
  CO_TRY(const auto from, co_await node.store.open_object(wanted.name));
  if (!from) co_return fail(object_missing(wanted));
  const io::ObjectRecord& now = from->record();
  CO_TRY(const auto file, co_await node.store.create(wanted.name, now.file_bytes()));
  if (now.coding) {
    // Its slices stay where they are, and what names them is made anew.
    NewBytes bytes{*file, now.size, now.xxh64};
    bytes.kept = &*now.coding;
    CO_TRY(const io::ObjectRecord record,
           co_await commit_locked(node, wanted, wanted.write, std::move(bytes), std::move(custom),
                                  nullptr));
    co_return record.generation;
  }
  Digests digests;
  CO_TRY_OK(co_await copy_file(*from, *file, digests));
  if (digests.xxh64() != now.xxh64)
    co_return fail(Errc::corrupt, "{} does not match its checksum", wanted.display());
  CO_TRY(const io::ObjectRecord record,
         co_await commit_locked(node, wanted, wanted.write, new_bytes(*file, digests),
                                std::move(custom), nullptr));
  co_return record.generation;
}

}  // namespace

Task<Status> patch_object(TargetNode& node, http::Request& request) {
  CO_TRY(const ObjectRequest wanted, co_await admit_write(node, request));
  if (wanted.elsewhere != nullptr) co_return co_await redirect_to_owner(node, request, wanted);
  CO_TRY_OK(check_announced_length(request.head(), *wanted.claim));
  MetadataChange change;
  CO_TRY(change.replaces, request.query().flag("set-new-custom"));
  CO_TRY(const std::string body, co_await request.exchange.read_all(api::Action::kBytesMax));
  CO_TRY(const api::Action asked, api::parse_action(body));
  CO_TRY(change.pairs, api::custom_from_json(asked.value));
  if (api::has_upstream(wanted.bucket.name)) {
    CO_TRY_OK(co_await node.upstream_writes->patch(wanted, wanted.write, change, request.head()));
    CO_TRY_OK(check_lease_before_reply(wanted.write));
    co_return co_await request.exchange.respond(http::Response(200));
  }

  const bool on_nodes = replica_count_of(node, wanted.name.bucket).many();
  // Without the lock: what other replicas hold, newer or pending, is sent to this node as well.
  if (on_nodes || !wanted.state->map.past.empty()) CO_TRY_OK(co_await fetch_to_owner(node, wanted));
  const auto held = co_await node.store.locks().acquire(wanted.name.key());
  CO_TRY(const Newest found, co_await find_present(node, wanted));
  const Located& newest = found.here.front();
  if (http::check_write_conditions(request.head(), newest.record.etag(),
                                   modified_seconds(newest.record)) != http::Condition::proceed)
    co_return fail(Errc::precondition_failed, "{} is now {}", wanted.display(),
                   newest.record.etag());
  CO_TRY(api::CustomMetadata custom, with_change(newest.record.custom, change));
  if (on_nodes) {
    CO_TRY(const Generation generation, co_await store_anew(node, wanted, std::move(custom)));
    CO_TRY_OK(check_lease_before_reply(wanted.write));
    CO_TRY_OK(co_await request.exchange.respond(http::Response(200)));
    co_await confirm_replicas(node, wanted.name, generation);
    co_return Status();
  }
  const auto map_version = wanted.write.commit();
  if (!map_version)
    co_return fail(Errc::unavailable, "this target has no lease now and takes no writes");
  // From the commit on nothing of the name is sent to other targets before this has ended.
  if (replica_count_of(node, wanted.name.bucket).many())
    co_return fail(Errc::unavailable, "the bucket has just got copies on nodes; try again");

  io::ObjectAttribute attribute{wanted.name.bucket, wanted.bucket.placed_as(), wanted.name.object,
                                newest.record};
  attribute.record.generation = node.next_generation(*map_version);
  attribute.record.custom = std::move(custom);
  CO_TRY_OK(co_await node.store.patch(wanted.name, *newest.drive, std::move(attribute)));
  CO_TRY_OK(check_lease_before_reply(wanted.write));
  obs::log("target").debug("patch done req={} bucket={} object={}", request.exchange.request_id(),
                           wanted.bucket.name.name, wanted.name.object);
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::target
