// Slices of coded objects that come from, and go to, other targets (slice_messages.h).

#include "target/coded/slice_requests.h"

#include <nlohmann/json.hpp>

#include "common/base/fail_point.h"
#include "target/coded/slice_holder.h"
#include "target/coded/slice_judge.h"
#include "target/drive/block_writer.h"
#include "target/node/bodies.h"
#include "target/node/rebuild_pace.h"
#include "target/node/sender.h"

namespace tarn::target {
namespace {

/// Waits until this target knows the state of the cluster by which the caller acts.
Task<Status> slice_requests_catch_up(TargetNode& node, const http::Request& request) {
  CO_TRY(const AsOf when, as_of(request.query()));
  CO_TRY(const auto state, co_await node.view.at_least(when.map_version, when.bmd_version));
  co_return Status();
}

/// Each block is looked at before it is written: what the network did to it is not sealed.
Task<Status> receive_slice(http::Exchange& exchange, const SliceWrite& write, WrittenSlice& into) {
  const ec::SliceId slice{ec::SetId(write.key.set), write.geometry, write.key.index};
  std::uint64_t stripe = 0;
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives write_from()
  const auto next = [&](std::span<std::byte> room) -> Task<Result<std::size_t>> {
    CO_TRY(const std::size_t got, co_await read_full(exchange, room));
    for (auto rest = room.first(got); !rest.empty(); ++stripe) {
      const auto block = rest.first(std::min(write.geometry.block_bytes, rest.size()));
      if (const Status good = ec::check_block(block, slice, stripe); !good)
        co_return fail(Errc::checksum_mismatch, "{}", good.error().message);
      rest = rest.subspan(block.size());
    }
    co_return got;
  };
  CO_TRY(into.bytes, co_await write_from(into.slice->file(), 0, next));
  co_return Status();
}

Task<Status> receive_full_copy(http::Exchange& exchange, WrittenSlice& into) {
  into.digests.emplace();
  const auto next = [&](std::span<std::byte> room) { return read_full(exchange, room); };
  CO_TRY_OK(co_await write_chunks(into.slice->file(), *into.digests, next));
  into.bytes = into.digests->size();
  co_return Status();
}

}  // namespace

Task<Status> write_slice(TargetNode& node, http::Request& request) {
  CO_TRY(const SliceWrite write, slice_write_of(request.query()));
  CO_TRY_OK(co_await slice_requests_catch_up(node, request));
  CO_TRY_OK(check_memory());
  WrittenSlice written;
  CO_TRY(written.slice, co_await begin_slice(node, write));
  if (write.key.index == io::kFullCopy) {
    CO_TRY_OK(co_await receive_full_copy(request.exchange, written));
  } else {
    CO_TRY_OK(co_await receive_slice(request.exchange, write, written));
  }
  const std::uint64_t bytes = written.bytes;
  CO_FAIL_POINT("slice.written");
  CO_TRY_OK(keep_slice(node, write.token, std::move(written)));
  co_return co_await request.exchange.respond(
      http::Response(200, http::kJson, nlohmann::json{{"bytes", bytes}}.dump()));
}

Task<Status> seal_written_slice(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kSliceSealBytesMax));
  CO_TRY(SliceSeal seal, slice_seal_of(request.query(), body));
  CO_TRY_OK(co_await slice_requests_catch_up(node, request));
  CO_TRY_OK(co_await seal_slice(node, std::move(seal)));
  co_return co_await request.exchange.respond(http::Response(200));
}

Task<Status> abandon_slice(TargetNode& node, http::Request& request) {
  CO_TRY(const SliceToken token, slice_token_of(request.query()));
  static_cast<void>(node.open_slices.take(token));
  co_return co_await request.exchange.respond(http::Response(200));
}

Task<Status> read_slice(TargetNode& node, http::Request& request) {
  CO_TRY(const SliceRead read, slice_read_of(request.query()));
  CO_TRY_OK(co_await slice_requests_catch_up(node, request));
  auto opened = co_await node.store.slices().open(read.key, read.unless_slow);
  if (!opened) {
    note_if_bad(node, read.key, opened.error());
    co_return fail(opened.error());
  }
  auto slice = std::move(*opened);
  const std::uint64_t all = slice->file_bytes();
  const auto [offset, bytes] = read.range;
  if (bytes > all || offset > all - bytes)
    co_return fail(Errc::range_not_satisfiable, "slice {} of {} has {} bytes", read.key.index,
                   read.key.name, all);
  const Drive* const drive = &slice->drive();
  Sender sender(request.exchange, std::move(slice), {offset, bytes}, node.verify_always);
  std::optional<ServingClient> serving;  // another target serves him, out of this slice too
  if (read.purpose == TurnFor::background)
    sender.set_toll(
        [&node, drive](std::uint64_t passing) { return pass_read(node, drive, passing); });
  else
    serving.emplace(node);
  Status sent = co_await sender.begin(http::Response(200));
  if (sent && !sender.done()) sent = co_await sender.send();
  if (!sent) note_if_bad(node, read.key, sent.error());
  CO_TRY_OK(sent);
  co_return co_await request.exchange.finish();
}

Task<Status> drop_slice(TargetNode& node, http::Request& request) {
  CO_TRY(SliceDrop drop, slice_drop_of(request.query()));
  CO_TRY_OK(co_await slice_requests_catch_up(node, request));
  drop_slice_later(node, std::move(drop));
  co_return co_await request.exchange.respond(http::Response(200));
}

Task<Status> tell_slices(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kSlicesBytesMax));
  CO_TRY(auto keys, slice_keys_of(body));
  CO_TRY_OK(co_await slice_requests_catch_up(node, request));
  const auto seen = co_await states_here(node, std::move(keys));
  co_return co_await request.exchange.respond(
      http::Response(200, "application/msgpack", to_body(std::span(seen))));
}

Task<Status> judge_slices(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kSlicesBytesMax));
  CO_TRY(auto slices, held_slices_of(body));
  CO_TRY_OK(co_await slice_requests_catch_up(node, request));
  std::string holder(
      security::NodeAuth::node_of(request.head().field(security::NodeAuth::kHeader)));
  const auto verdicts = co_await judge(node, std::move(holder), std::move(slices));
  co_return co_await request.exchange.respond(
      http::Response(200, "application/msgpack", to_body(std::span(verdicts))));
}

Task<Status> hear_of_bad_slice(TargetNode& node, http::Request& request) {
  CO_TRY(const SliceKey key, slice_key_of(request.query()));
  node.repair_requests.add(key.bucket, key.name);
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::target
