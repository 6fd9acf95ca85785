// Steps of a PUT at the target: check what the proxy announced, and stream the body into a work
// file while hashing it. Then, under the name's lock, check all that must hold and publish
// (publish.cc has the order of the commit). Nothing is acknowledged before it is durable, unless
// the bucket asks for that. Append and copy, which also come as a PUT, branch off here.

#include "common/api/coding_props.h"
#include "common/api/upstream_props.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "target/coded/coded_write.h"
#include "target/commit/incoming.h"
#include "target/node/bodies.h"
#include "target/replica/away_drive.h"
#include "target/replica/node_copies.h"
#include "target/request/admission.h"
#include "target/request/handlers.h"
#include "target/request/redirect_to_owner.h"

namespace tarn::target {
namespace {

/// A generator that the proxy saw as chunks and that the client could not send again arrives empty.
Status check_not_lost(const security::RedirectClaim& claim, std::uint64_t size) {
  if (!SAFETY("safety.redirect_length")) return {};
  if (claim.length != security::kChunkedLength || size > 0) return {};
  return fail(Errc::invalid_argument,
              "body lost in a redirect: chunks were announced to the proxy, none came here. For an "
              "empty object send Content-Length: 0, or use the relay listener");
}

struct Stored {
  io::ObjectRecord record;
  bool degraded = false;  ///< fewer copies than wanted
};

/// The body goes to the holders of its slices as it comes (coded_write.h).
Task<Result<Stored>> put_store_coded(TargetNode& node, http::Request& request,
                                     const ObjectRequest& wanted, BodyChecksums announced,
                                     api::CustomMetadata custom) {
  const auto& head = request.head();
  CO_TRY_OK(check_memory());
  CO_TRY(const auto coded, co_await begin_coded(node, wanted, head.content_length));
  while (true) {
    const auto room = coded->room();
    CO_TRY(const std::size_t got, co_await request.exchange.read_some(room));
    if (got == 0) break;
    announced.update(room.first(got));
    CO_TRY_OK(co_await coded->filled(got));
  }
  CO_TRY_OK(co_await coded->end());
  CO_TRY_OK(announced.check(coded->xxh64()));
  announced.note_kept(custom);
  CO_TRY(auto file, co_await create_here(node, wanted.name, 0));
  NewBytes bytes{*file, coded->size(), coded->xxh64()};
  bytes.coded = coded.get();
  CO_TRY(io::ObjectRecord record, co_await commit_file(node, wanted, wanted.write, std::move(bytes),
                                                       std::move(custom), &head));
  co_return Stored{std::move(record), file->degraded()};
}

/// Receives the body and compares it with what was announced. `written` as in receive_body().
Task<Status> receive_checked(http::Request& request, const ObjectRequest& wanted, WorkFile& file,
                             Digests& digests, BodyChecksums& announced,
                             const std::function<void(std::uint64_t)>& written) {
  CO_TRY_OK(co_await receive_body(request.exchange, file, digests, announced, nullptr, written));
  CO_TRY_OK(check_not_lost(*wanted.claim, digests.size()));
  co_return announced.check(digests.xxh64());
}

/// The parts of a large body go upstream as they come.
Task<Result<Stored>> put_through(TargetNode& node, http::Request& request,
                                 const ObjectRequest& wanted, BodyChecksums announced,
                                 api::CustomMetadata custom) {
  const auto& head = request.head();
  CO_TRY(auto file, co_await create_here(node, wanted.name, head.content_length));
  CO_TRY(auto early, co_await node.upstream_writes->begin(wanted, *file,
                                                          head.content_length.value_or(0), custom));
  Digests digests;
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives gather()
  const auto receive = [&]() -> Task<Status> {
    const auto tell = [&](std::uint64_t bytes) {
      if (early) early->written(bytes);
    };
    const Status done = co_await receive_checked(request, wanted, *file, digests, announced, tell);
    if (!done && early) early->stop();
    co_return done;
  };
  std::vector<Task<Status>> both;
  both.push_back(receive());
  if (early) both.push_back(early->send());
  for (const Status& each : co_await gather(std::move(both))) {
    if (each) continue;
    if (early) co_await early->abandon();
    co_return fail(each.error());
  }
  announced.note_kept(custom);
  CO_TRY(io::ObjectRecord record,
         co_await node.upstream_writes->put(wanted, wanted.write, new_bytes(*file, digests),
                                            std::move(custom), &head, std::move(early)));
  co_return Stored{std::move(record), false};
}

Task<Result<Stored>> store_body(TargetNode& node, http::Request& request,
                                const ObjectRequest& wanted) {
  const auto& head = request.head();
  CO_TRY(BodyChecksums announced, BodyChecksums::from(head));
  announced.keep(api::checksum_type_of(wanted.bucket.props));
  CO_TRY(auto custom, custom_metadata_of(head));
  if (api::has_upstream(wanted.bucket.name))
    co_return co_await put_through(node, request, wanted, std::move(announced), std::move(custom));
  const auto coding = api::coding_of(wanted.bucket.props);
  if (coding && head.content_length && coding->is_coded(*head.content_length))
    co_return co_await put_store_coded(node, request, wanted, std::move(announced),
                                       std::move(custom));
  CO_TRY(auto file, co_await create_here(node, wanted.name, head.content_length));
  if (wanted.bucket.props.durability == cluster::Durability::nosync) file->write_late();
  Digests digests;
  CO_TRY_OK(co_await receive_checked(request, wanted, *file, digests, announced, nullptr));
  announced.note_kept(custom);
  CO_TRY(io::ObjectRecord record,
         co_await commit_file(node, wanted, wanted.write, new_bytes(*file, digests),
                              std::move(custom), &head));
  co_return Stored{std::move(record), file->degraded()};
}

}  // namespace

Task<Status> put_object(TargetNode& node, http::Request& request) {
  const auto& head = request.head();
  if (!head.content_length && !head.chunked)
    co_return fail(Errc::length_required, "a PUT needs a Content-Length or chunks");
  CO_TRY(const ObjectRequest wanted, co_await admit_write(node, request));
  if (wanted.elsewhere != nullptr) co_return co_await redirect_to_owner(node, request, wanted);
  CO_TRY_OK(check_announced_length(head, *wanted.claim));
  const bool appends = request.query().find("append_type").has_value();
  const bool copies = request.query().find("object_to").has_value();
  if (appends && copies)
    co_return fail(Errc::invalid_argument, "append_type and object_to exclude each other");
  if (appends) co_return co_await append_object(node, request, wanted);
  if (copies) co_return co_await copy_object(node, request, wanted);
  CO_TRY_OK(co_await check_before_body(node, head, wanted));
  CO_TRY(const Stored stored, co_await store_body(node, request, wanted));
  CO_FAIL_POINT("put.before_reply");
  CO_TRY_OK(check_lease_before_reply(wanted.write));
  obs::log("target").debug("put done req={} bucket={} object={} bytes={}",
                           request.exchange.request_id(), wanted.bucket.name.name,
                           wanted.name.object, stored.record.size);
  http::Response response = stored_response(stored.record);
  if (stored.degraded) response.set("Tarn-Durability", "degraded");
  CO_TRY_OK(co_await request.exchange.respond(std::move(response)));
  co_await confirm_replicas(node, wanted.name, stored.record.generation);
  co_return Status();
}

}  // namespace tarn::target
