// Appends (docs/api.md): bytes gather in a file that no reader sees; the flush commits it like a
// PUT, which upstream has first where there is one. The redirects of a name lead to one target,
// where its appends are kept in memory.

#include "common/api/upstream_props.h"
#include "common/base/buffer_pool.h"
#include "common/base/fail_point.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/commit/incoming.h"
#include "target/commit/peer_copy.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/request/handlers.h"

namespace tarn::target {
namespace {

/// The object's present content, or null. Of a bucket with an upstream: what that has now.
Task<Result<std::shared_ptr<OpenObject>>> open_present(TargetNode& node,
                                                       const ObjectRequest& wanted) {
  if (!api::has_upstream(wanted.bucket.name)) co_return co_await open_newest(node, wanted);
  CO_TRY(const bool is_there, co_await confirm_source(node, wanted));
  if (!is_there) co_return nullptr;
  co_return co_await open_source(node, wanted);
}

/// A new append: the object's present content, if there is any, is what it begins with.
Task<Result<OpenAppends::Use>> begin_append(TargetNode& node, http::Request& request,
                                            const ObjectRequest& wanted) {
  if (api::has_upstream(wanted.bucket.name)) {
    CO_TRY_OK(co_await node.upstream_writes->check(wanted, request.head()));
    CO_TRY_OK(co_await node.upstream_writes->check_append(wanted));
  }
  CO_TRY(const auto present, co_await open_present(node, wanted));
  CO_TRY(auto file, co_await node.store.create(wanted.name, std::nullopt));
  CO_TRY(auto append, node.appends.add(std::move(file), wanted.name.key(), node.clock));
  if (present) {
    const Status copied =
        co_await copy_bytes(node, wanted.name, *present, *append->file, append->digests);
    if (!copied) {
      append.end();
      co_return fail(copied.error());
    }
    append->custom = present->record().custom;
  }
  append->before = append->digests.mark();
  co_return append;
}

/// Brings the append to where the handle was issued.
Task<Status> go_back_to(Append& append, std::uint64_t size) {
  if (size != append.digests.size()) {
    if (size != append.before.size)
      co_return fail(Errc::invalid_argument,
                     "append_handle is not the last one: it was given out at {} bytes, there are "
                     "{} now",
                     size, append.digests.size());
    append.digests.back_to(append.before);
    append.has_leftovers = true;
  }
  if (append.has_leftovers) {
    CO_TRY_OK(co_await append.file->drive().truncate(*append.file, size));
    append.has_leftovers = false;
  }
  co_return Status();
}

/// The append that the query's handle names, as it was when the handle was issued.
Task<Result<OpenAppends::Use>> find_append(TargetNode& node, std::string_view text,
                                           const ObjectRequest& wanted) {
  CO_TRY(const AppendHandle handle, AppendHandle::parse(text));
  if (handle.target != node.id)
    co_return fail(Errc::invalid_argument,
                   "append_handle is of target t[{}], {} belongs to t[{}] now: begin again with an "
                   "empty handle",
                   handle.target, wanted.display(), node.id);
  CO_TRY(auto append, node.appends.use(handle, wanted.name.key(), node.clock));
  CO_TRY_OK(co_await go_back_to(*append, handle.size));
  co_return append;
}

/// `announced` is the length that the client sent for this body. A body that did not come whole
/// does not count.
Task<Status> receive_part(http::Exchange& exchange, Append& append, BodyChecksums announced) {
  append.before = append.digests.mark();
  Xxh64Stream part;
  Status received = co_await receive_body(exchange, *append.file, append.digests, announced, &part);
  if (received) received = announced.check(part.digest());
  if (received) co_return Status();
  append.digests.back_to(append.before);
  append.has_leftovers = true;
  co_return received;
}

/// Checksums that come with a flush are those of the whole object, and so is the bucket's.
Task<Status> check_whole(Append& append, BodyChecksums& announced) {
  if (announced.needs_bytes()) {
    const PooledBuffer buffer(PooledBuffer::kBlockBytes);
    const std::uint64_t size = append.digests.size();
    for (std::uint64_t at = 0; at < size; at += kBlockBytes) {
      const auto chunk = buffer.span().first(std::min(kBlockBytes, size - at));
      CO_TRY_OK(co_await append.file->drive().read_back(*append.file, chunk, at));
      announced.update(chunk);
    }
  }
  co_return announced.check(append.digests.xxh64());
}

Task<Status> append_part(TargetNode& node, http::Request& request, const ObjectRequest& wanted) {
  const std::string_view handle = request.query().get("append_handle");
  CO_TRY(BodyChecksums announced, BodyChecksums::from(request.head()));
  auto found = handle.empty() ? co_await begin_append(node, request, wanted)
                              : co_await find_append(node, handle, wanted);
  if (!found) co_return fail(found.error());
  http::Response done(200);
  {
    // Free for the next call before the client can know that this one is done.
    OpenAppends::Use append = std::move(*found);
    const Status received = co_await receive_part(request.exchange, *append, std::move(announced));
    if (!received) {
      if (handle.empty()) append.end();  // the client has no handle to it
      co_return received;
    }
    done.set("Ais-Append-Handle", AppendHandle{node.id, append->id, append->digests.size()}.text());
  }
  co_return co_await request.exchange.respond(std::move(done));
}

Task<Status> flush(TargetNode& node, http::Request& request, const ObjectRequest& wanted) {
  const std::string_view handle = request.query().get("append_handle");
  if (handle.empty())
    co_return fail(Errc::invalid_argument,
                   "append_type=flush needs the append_handle of the last append");
  CO_TRY(BodyChecksums whole, BodyChecksums::from(request.head()));
  whole.keep(api::checksum_type_of(wanted.bucket.props));
  CO_TRY(auto custom, custom_metadata_of(request.head()));
  CO_TRY(auto append, co_await find_append(node, handle, wanted));
  CO_TRY_OK(co_await receive_part(request.exchange, *append, BodyChecksums()));
  CO_TRY_OK(co_await check_whole(*append, whole));
  custom = api::merged(append->custom, custom);
  whole.note_kept(custom);
  NewBytes bytes = new_bytes(*append->file, append->digests);
  const auto record =
      api::has_upstream(wanted.bucket.name)
          ? co_await node.upstream_writes->put(wanted, wanted.write, std::move(bytes),
                                               std::move(custom), &request.head(), nullptr)
          : co_await commit_file(node, wanted, wanted.write, std::move(bytes), std::move(custom),
                                 &request.head());
  const bool degraded = append->file->degraded();
  // A flush that failed before anything was published (no lease, for instance) may be sent again.
  if (record || !append->file->is_open()) append.end();
  if (!record) co_return fail(record.error());
  CO_FAIL_POINT("put.before_reply");
  CO_TRY_OK(check_lease_before_reply(wanted.write));
  obs::log("target").debug("flush done req={} object={} bytes={}", request.exchange.request_id(),
                           wanted.display(), record->size);
  http::Response response = stored_response(*record);
  if (degraded) response.set("Tarn-Durability", "degraded");
  CO_TRY_OK(co_await request.exchange.respond(std::move(response)));
  co_await confirm_replicas(node, wanted.name, record->generation);
  co_return Status();
}

}  // namespace

Task<Status> append_object(TargetNode& node, http::Request& request, const ObjectRequest& wanted) {
  const std::string_view type = request.query().get("append_type");
  if (type == "append") co_return co_await append_part(node, request, wanted);
  if (type == "flush") co_return co_await flush(node, request, wanted);
  co_return fail(Errc::invalid_argument, "append_type '{}': it is append or flush", type);
}

Task<void> drop_abandoned_appends(TargetNode& node) {
  constexpr std::chrono::milliseconds kEveryMax{60'000};
  while (true) {
    const std::chrono::milliseconds timeout = node.append_timeout;
    co_await pause(std::min(timeout / 4 + std::chrono::milliseconds(1), kEveryMax));
    const std::size_t dropped = node.appends.drop_idle(node.clock.boot_time() - timeout);
    if (dropped > 0) obs::log("target").info("abandoned appends dropped count={}", dropped);
  }
}

}  // namespace tarn::target
