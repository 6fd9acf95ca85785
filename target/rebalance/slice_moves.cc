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

namespace tarn::target {
namespace {

constexpr std::size_t kPageSlices = 256;

struct SliceMovesPage {
  std::vector<std::pair<SliceKey, io::ObjectRecord>> slices;
  std::optional<SliceKey> last;  // that was looked at
  bool more = false;
};

/// The next slices that are to go from `drive`. Of several of one set all but the first.
Task<Result<SliceMovesPage>> slice_moves_next_page(Drive& drive, BucketId bucket,
                                                   std::optional<SliceKey> after) {
  SliceMovesPage page;
  page.last = after;
  const bool all = drive.draining();
  std::size_t looked = 0;
  const auto visit = [&](const SliceKey& key, const io::ObjectRecord& record) {
    if (all || (page.last && same_set(*page.last, key))) page.slices.emplace_back(key, record);
    page.last = key;
    page.more = page.slices.size() == kPageSlices || ++looked == kPageSlices * 64;
    return !page.more;
  };
  CO_TRY_OK(co_await drive.walk_slices(bucket, std::move(after), visit));
  co_return page;
}

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
    SliceMovesPage page;
    do {
      CO_TRY(page, co_await slice_moves_next_page(from, bucket.id, page.last));
      for (const auto& [key, record] : page.slices) {
        CO_TRY_OK(pace.go_on());
        const auto moved = co_await move_slice(store, bucket, from, key, record, pace);
        CO_TRY_OK(pace.go_on());
        if (!moved)
          obs::log("target").warn("slice not moved object={} slice={} drive={} err={}", key.name,
                                  key.index, from.path(), moved.error().message);
        // Where it may stay, the next walk will do.
        if (!moved && from.draining() && first)
          first = fail(moved.error().code, "slice {} of {}: {}", key.index, key.name,
                       moved.error().message);
        if (!moved || !*moved) continue;
        ++counts.objects;
        counts.bytes += record.file_bytes();
      }
    } while (page.more);
  }
  co_return first;
}

}  // namespace tarn::target
