// Slices that go from one drive of this target to another: copied and compared, sealed there under
// the generation that they have, then dropped where they were. A crash leaves one or both, which
// are the same bytes.

#include "target/rebalance/slice_moves.h"

#include "common/base/buffer_pool.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/block_reader.h"
#include "target/drive/block_writer.h"
#include "target/drive/slice_ids.h"
#include "target/drive/slice_pages.h"

namespace tarn::target {
namespace {

constexpr PageSize kSliceMovesPage{.records = 16'384, .items = 256};

/// Its blocks, or bytes, each of them checked; what seal() wants to know of them goes into the
/// order.
Task<Result<bool>> copy_slice(Drive& from, const SliceKey& key, WorkFile& to, const Pace& pace,
                              Drive::SealOrder& order) {
  CO_TRY(const auto slice, co_await from.open_slice(key));
  if (!slice) co_return false;
  Digests digests;
  {
    BlockReader blocks(*slice, TurnFor::background);
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives write_chunks()
    const auto next = [&](std::span<std::byte> into) -> Task<Result<std::size_t>> {
      const std::uint64_t left = slice->file_bytes() - digests.size();
      CO_TRY_OK(co_await pace.pass(std::min(kBlockBytes, left)));
      CO_FAIL_POINT("move.block");
      co_return co_await blocks.next(into);
    };
    CO_TRY_OK(co_await write_chunks(to, digests, next));
  }
  if (key.index != io::kFullCopy) {
    CO_TRY(order.label, co_await from.slice_label(key));
    co_return true;
  }
  if (digests.xxh64() != slice->record().xxh64)
    co_return fail(Errc::corrupt, "the full copy of {} on drive {} does not match its checksum",
                   key.name, from.path());
  order.checksums = digests.blocks();
  co_return true;
}

/// False: it went by itself, or may stay.
Task<Result<bool>> move_slice(ObjectStore& store, const cluster::BucketRecord& bucket, Drive& from,
                              const SliceKey& key, const io::ObjectRecord& record,
                              const Pace& pace) {
  SlicesHere& slices = store.slices();
  SlicesHere::Wanted wanted;
  wanted.bytes = record.file_bytes();
  wanted.not_on = &from;
  wanted.alone = !from.draining();
  ObjectName name{bucket.id, bucket.placement_name(key.name), key.name};
  auto made = co_await slices.create(std::move(name), key, wanted);
  const bool no_better_place =
      !made && wanted.alone &&
      (made.error().code == Errc::no_space || made.error().code == Errc::unavailable);
  if (no_better_place) co_return false;
  CO_TRY(const auto copy, std::move(made));
  copy->file().write_in_background();
  Drive::SealOrder order;
  order.attribute = {key.bucket, bucket.placed_as(), key.name, record};
  CO_TRY(const bool copied, co_await copy_slice(from, key, copy->file(), pace, order));
  if (!copied) co_return false;
  co_return co_await slices.replace(*copy, std::move(order), from);
}

}  // namespace

Task<Status> move_slices(ObjectStore& store, std::shared_ptr<const cluster::ClusterState> state,
                         Drive& from, const Pace& pace, api::CopyProgress& counts) {
  CO_TRY(const bool any, co_await from.has_slices());
  if (!any) co_return Status();
  Status first;
  for (const auto& [name, bucket] : state->bmd.buckets) {
    bool all = false;  // are to go; else of several of one set all but the first
    std::optional<SliceKey> last;
    const auto take = [&](const SliceKey& key, const io::ObjectRecord& record, auto& slices) {
      if (all || (last && same_set(*last, key))) slices.emplace_back(key, record);
      last = key;
    };
    SlicePages<std::pair<SliceKey, io::ObjectRecord>> pages(from, bucket.id, take, kSliceMovesPage);
    while (pages.more()) {
      all = from.draining();
      CO_TRY(const auto page, co_await pages.next());
      for (const auto& [key, record] : page) {
        CO_TRY_OK(pace.go_on());
        const auto moved = co_await move_slice(store, bucket, from, key, record, pace);
        CO_TRY_OK(pace.go_on());
        if (!moved)
          obs::log("target").warn("slice not moved object={} slice={} drive={} err={}", key.name,
                                  key.index, from.path(), moved.error().message);
        // A slice that may stay is left to the next walk.
        if (!moved && from.draining() && first)
          first = fail(moved.error().code, "slice {} of {}: {}", key.index, key.name,
                       moved.error().message);
        if (!moved || !*moved) continue;
        ++counts.objects;
        counts.bytes += record.file_bytes();
      }
    }
  }
  co_return first;
}

}  // namespace tarn::target
