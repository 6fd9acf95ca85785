#include "target/upstream/filling.h"

#include <array>

#include "common/api/custom_metadata.h"
#include "common/base/buffer_pool.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "target/commit/incoming.h"
#include "target/drive/record_fields.h"
#include "target/node/bodies.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/upstream/body.h"
#include "target/upstream/former_fill.h"
#include "target/upstream/write_mark.h"

namespace tarn::target {
namespace {

/// Bytes that go to readers as they come; after it, in whole buffers.
constexpr std::uint64_t kEagerBytes = 1U << 20U;
constexpr std::size_t kEagerChunkBytes = 64U << 10U;

/// State of the name in the cluster when a fill begins.
struct Noted {
  std::optional<Generation> generation;  ///< none: it never had any
  bool is_being_written = false;         ///< upstream may have the old version or the new one
  std::uint64_t evictions = 0;           ///< ObjectStore::evictions()
};

/// `evictions`: as they were before it was looked.
Noted noted_in(const TargetNode& node, const Newest& newest, std::uint64_t evictions) {
  if (!newest.record) return {std::nullopt, false, evictions};
  return {newest.generation(), is_open_mark(*newest.record, node.clock.wall_time().count()),
          evictions};
}

/// ok unless what was noted has been lost with a drive, and is evicted by now: a write may have
/// been noted there.
Status check_none_evicted(const TargetNode& node, const ObjectRequest& wanted, const Noted& noted) {
  if (node.store.evictions() == noted.evictions || !SAFETY("safety.fill_eviction")) return {};
  return fail(Errc::conflict, "{} was evicted with a drive meanwhile", wanted.display());
}

/// The checksums that upstream sent, as if a client had sent them.
Result<BodyChecksums> expected(const UpstreamObject& object, const ObjectRequest& wanted) {
  http::RequestHead head;
  head.fields = object.checksums;
  TRY(BodyChecksums out, BodyChecksums::from(head));
  out.keep(api::checksum_type_of(wanted.bucket.props));
  return out;
}

/// Metadata that the record keeps beside the bytes. `sums` have been checked.
api::CustomMetadata metadata_of(const UpstreamObject& object, const ObjectRequest& wanted,
                                const BodyChecksums& sums) {
  api::CustomMetadata out = kept_metadata(object, sums);
  out.emplace_back(api::kSourceKey, wanted.bucket.name.provider);
  if (!object.etag.empty()) out.emplace_back(api::kSourceTagKey, object.etag);
  return out;
}

Status check_not_stopped(const asio::cancellation_state& state) {
  if (state.cancelled() == asio::cancellation_type::none) return {};
  return fail(Errc::cancelled, "this target is stopping; try again");
}

/// Brings the body into `file`, and reports to the fill each chunk that is there.
Task<Status> receive(UpstreamBody& body, WorkFile& file, Digests& digests, BodyChecksums& sums,
                     Fill& fill) {
  // No drive may be writing from a buffer that goes.
  co_await asio::this_coro::throw_if_cancelled(false);
  std::array<PooledBuffer, 2> buffers{PooledBuffer(PooledBuffer::kSmallBytes),
                                      PooledBuffer(PooledBuffer::kSmallBytes)};
  io::DriveThreads::Pending<Status> writing;
  std::uint64_t sent = 0;  // bytes that are written or being written
  for (std::size_t turn = 0;; turn ^= 1U) {
    auto buffer = buffers[turn].span();
    if (sent < kEagerBytes) buffer = buffer.first(kEagerChunkBytes);
    std::size_t have = 0;
    Status result = check_not_stopped(co_await asio::this_coro::cancellation_state);
    while (result && have < buffer.size()) {
      const auto got = co_await body.read_some(buffer.subspan(have));
      if (!got) result = fail(got.error());
      if (!got || *got == 0) break;
      have += *got;
      if (sent < kEagerBytes) break;
    }
    if (writing.valid()) {
      const Status written = co_await writing.get();
      if (written) fill.written(sent);
      if (!written) fill.set_local_failure();
      if (!written) co_return fail(written.error());
    }
    CO_TRY_OK(result);
    if (have == 0) co_return Status();
    CO_TRY_OK(co_await file.drive().room(file));
    digests.update(buffer.first(have));
    sums.update(buffer.first(have));
    writing = file.drive().write(file, buffer.first(have), sent);
    sent += have;
  }
}

Task<Status> receive_all(UpstreamBody& body, WorkFile& file, Digests& digests, BodyChecksums& sums,
                         Fill& fill) {
  if (!body.has_parts()) co_return co_await receive(body, file, digests, sums, fill);
  auto ended = co_await first_of(receive(body, file, digests, sums, fill), body.fetch_parts());
  if (ended.index() == 0) co_return std::get<0>(std::move(ended));
  co_return fail(Errc::cancelled, "this target is stopping; try again");
}

/// Makes the file the object, unless something has happened to the name since `noted`. Its version.
Task<Result<Generation>> keep(TargetNode& node, const ObjectRequest& wanted,
                              const UpstreamObject& object, NewBytes bytes,
                              api::CustomMetadata custom, Noted noted) {
  if (noted.is_being_written && SAFETY("safety.fill_mark"))
    co_return fail(Errc::conflict, "{} is being written upstream", wanted.display());
  CO_TRY(const Sliced sliced, co_await slice_file(node, wanted, bytes));
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node, wanted.name.uname));
  CO_TRY_OK(co_await resolve_copies(node, wanted.name));  // without the lock, which that needs
  const auto held = co_await node.store.locks().acquire(wanted.name.key());
  CO_TRY(const Newest newest, co_await find_newest(node, wanted));
  if (newest.generation() != noted.generation)
    co_return fail(Errc::conflict, "{} has changed meanwhile", wanted.display());
  CO_TRY_OK(check_none_evicted(node, wanted, noted));
  if (object.modified) bytes.modified_ns = *object.modified * 1'000'000'000;
  CO_FAIL_POINT("fill.before_commit");
  CO_TRY(const io::ObjectRecord record,
         co_await commit_locked(node, wanted, write, sliced.instead_of(std::move(bytes)),
                                std::move(custom), nullptr));
  co_return record.generation;
}

/// The body, from `begun`, an answer that has it all, or from upstream.
Task<Result<std::unique_ptr<UpstreamBody>>> open_body(Upstream& upstream, const UpstreamName& name,
                                                      std::optional<Upstream::Download> begun) {
  if (!begun) co_return co_await UpstreamBody::open(upstream, name);
  UpstreamObject object = begun->object;
  co_return std::make_unique<UpstreamBody>(upstream, name, std::move(object), std::move(*begun));
}

/// Steps 2 to 4 of filling.h. An error: readers cannot have all of it.
Task<Status> fetch(TargetNode& node, Upstream& upstream, Fill& fill, const ObjectRequest& wanted,
                   Noted noted, std::optional<Upstream::Download> begun) {
  CO_TRY_OK(check_memory());
  const UpstreamName name = upstream_name(wanted);
  const BootTime asked = node.clock.boot_time();
  const bool is_of_now = !begun;
  if (is_of_now) fill.ask_upstream();
  CO_TRY(const auto body, co_await open_body(upstream, name, std::move(begun)));
  const UpstreamObject& object = body->object();
  if (!object.size)
    co_return fail(Errc::bad_upstream,
                   "{}: upstream does not say how long it is (Content-Length), so a body that is "
                   "cut could not be told from a whole one",
                   name.display());
  CO_TRY(BodyChecksums sums, expected(object, wanted));
  auto file = co_await create_here(node, wanted.name, object.size);
  auto followed = file ? co_await (*file)->drive().follow(**file)
                       : Result<std::shared_ptr<FollowedFile>>(fail(file.error()));
  if (!followed) {
    fill.set_local_failure();
    co_return fail(followed.error());
  }
  fill.open(object, std::move(*followed));
  Digests digests;
  CO_TRY_OK(co_await receive_all(*body, **file, digests, sums, fill));
  if (digests.size() != *object.size && SAFETY("safety.fill_length"))
    co_return fail(Errc::bad_upstream, "{}: upstream sent {} bytes and had announced {}",
                   name.display(), digests.size(), *object.size);
  if (const Status same = sums.check(digests.xxh64()); !same)
    co_return fail(Errc::bad_upstream, "{}: what upstream sent is not what it says it has: {}",
                   name.display(), same.error().message);
  fill.release_all();
  const auto kept = co_await keep(node, wanted, object, new_bytes(**file, digests),
                                  metadata_of(object, wanted, sums), noted);
  if (kept) {
    ++upstream.counts().fills;
    if (is_of_now) upstream.confirmed().note(wanted.name.key(), *kept, asked);
    fill.end({}, digests.size());
    co_await confirm_replicas(node, wanted.name, *kept);
    co_return Status();
  }
  ++upstream.counts().fills_failed;
  const auto level =
      kept.error().code == Errc::conflict ? spdlog::level::info : spdlog::level::warn;
  obs::log("target").log(level, "fill not kept object={} bytes={} err={}", name.display(),
                         digests.size(), kept.error().message);
  fill.end({}, fail(kept.error()));
  co_return Status();
}

/// All steps; an error when readers cannot have all of it.
Task<Status> fill_once(TargetNode& node, Upstream& upstream, Fill& fill,
                       const ObjectRequest& wanted, FillFrom from) {
  const std::uint64_t evictions = node.store.evictions();
  CO_TRY(const Newest before, co_await find_complete(node, wanted));
  const Noted noted = noted_in(node, before, evictions);
  fill.note(noted.generation);
  // The object has come since the reader looked.
  if (before.exists()) co_return fail(Errc::conflict, "{} is here by now", wanted.display());
  std::optional<Upstream::Download> begun;
  if (from == FillFrom::any && !noted.is_being_written)
    begun = co_await fill_of_former_owner(node, wanted.name, before, upstream.silence());
  co_return co_await fetch(node, upstream, fill, wanted, noted, std::move(begun));
}

/// Takes the fill from the board however the coroutine ends, a stop of the target included: no
/// reader waits for what is not going to come.
struct EndOfFill {
  EndOfFill(FillBoard& its_board, std::string its_key, Fill& its_fill)
      : board(its_board), key(std::move(its_key)), fill(its_fill) {}
  ~EndOfFill() {
    board.end(key, fill);
    const auto stopped = fail(Errc::unavailable, "the fetch from upstream was stopped; try again");
    fill.end(stopped, stopped);
  }
  EndOfFill(const EndOfFill&) = delete;
  EndOfFill& operator=(const EndOfFill&) = delete;
  FillBoard& board;
  const std::string key;
  Fill& fill;
};

}  // namespace

UpstreamName upstream_name(const ObjectRequest& wanted) {
  return {wanted.bucket.name, api::upstream_of(wanted.bucket.name, wanted.bucket.props),
          wanted.name.object};
}

bool is_version_of(const UpstreamObject& object, const io::ObjectRecord& record) {
  if (object.size && *object.size != record.size) return false;
  std::string_view tag;
  for (const auto& [key, value] : record.custom)
    if (key == api::kSourceTagKey) tag = value;
  if (!tag.empty() || !object.etag.empty()) return tag == object.etag;
  return object.modified && *object.modified == modified_seconds(record);
}

Task<void> fill_object(TargetNode& node, Upstream& upstream, FillBoard& board,
                       std::shared_ptr<Fill> fill, ObjectRequest wanted, FillFrom from) {
  // A stop is looked for in receive(), where no drive is writing from a buffer that would go.
  co_await asio::this_coro::throw_if_cancelled(false);
  const EndOfFill end(board, wanted.name.key(), *fill);
  const Status done = co_await fill_once(node, upstream, *fill, wanted, from);
  if (!done) fill->end(done, fail(done.error()));
  if (done || done.error().code == Errc::conflict) co_return;
  ++upstream.counts().fills_failed;
  obs::log("target").warn("fill failed object={} err={}", wanted.display(), done.error().message);
}

}  // namespace tarn::target
