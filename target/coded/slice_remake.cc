#include "target/coded/slice_remake.h"

#include <algorithm>
#include <cstring>

#include "common/base/buffer_pool.h"
#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "ec/encoder.h"
#include "target/coded/coded_read.h"
#include "target/coded/full_copy_source.h"
#include "target/coded/slice_set.h"
#include "target/coded/slice_source.h"
#include "target/drive/slice_ids.h"

namespace tarn::target {
namespace {

using Lanes = std::vector<std::shared_ptr<SliceLane>>;

Task<Result<std::shared_ptr<SliceLane>>> slice_remake_open_lane(TargetNode& node,
                                                                const ObjectName& name,
                                                                const io::Coding& coding,
                                                                SliceGoal goal, std::uint64_t bytes,
                                                                TurnFor purpose) {
  SliceWrite write;
  write.token = new_slice_token();
  write.key = {name.bucket, name.object, coding.set, goal.index};
  write.geometry = geometry_of(coding);
  write.rank = goal.rank;
  write.bytes = bytes;
  write.purpose = purpose;
  co_return co_await SliceLane::open(node, std::move(goal.holder), std::move(write));
}

/// Returns the lanes that have not failed, in the order of their slices.
Lanes of_use(const Lanes& lanes) {
  Lanes out;
  for (const auto& lane : lanes)
    if (lane != nullptr && !lane->failed()) out.push_back(lane);
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a->index() < b->index(); });
  return out;
}

Task<Status> remake(ec::Rebuilder& rebuilder, SliceSet& from, const Lanes& to, const Toll& toll) {
  const std::size_t block_bytes = rebuilder.layout().geometry().block_bytes;
  for (; !rebuilder.done(); rebuilder.next()) {
    CO_FAIL_POINT("slice.remake");
    const std::uint64_t written = rebuilder.layout().block_bytes(rebuilder.stripe());
    if (toll) CO_TRY_OK(co_await toll(written * to.size()));
    CO_TRY_OK(co_await from.fill(rebuilder));
    CO_TRY(const auto blocks, rebuilder.blocks());
    // Block i goes to lane i: both are in the order of their slices.
    TARN_CHECK(blocks.size() == to.size());
    ec::Stripe stripe(block_bytes, blocks.size());
    stripe.describe(rebuilder.stripe(), blocks.front().size());
    for (std::size_t i = 0; i < blocks.size(); ++i)
      std::memcpy(stripe.room(i).data(), blocks[i].data(), blocks[i].size());
    const auto shared = std::make_shared<const ec::Stripe>(std::move(stripe));
    bool any = false;
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (to[i]->failed()) continue;
      const Status pushed = co_await to[i]->push(shared, shared->block(i));
      any = any || pushed;
    }
    if (!any) break;
  }
  co_return Status();
}

/// A block as a lane takes it.
std::shared_ptr<const ec::Stripe> stripe_of(std::span<const std::byte> block, std::uint64_t number,
                                            std::size_t block_bytes) {
  ec::Stripe stripe(block_bytes, 1);
  stripe.describe(number, block.size());
  std::memcpy(stripe.room(0).data(), block.data(), block.size());
  return std::make_shared<const ec::Stripe>(std::move(stripe));
}

Task<Status> copy_blocks(SliceSource& from, const ec::SliceId& slice, const ec::Layout& layout,
                         SliceLane& to, const Toll& toll) {
  for (std::uint64_t at = 0; at < layout.stripes();) {
    const std::uint64_t count =
        std::min(SliceSource::blocks_at_once(layout), layout.stripes() - at);
    if (toll) CO_TRY_OK(co_await toll(layout.file_range({at, count}).bytes));
    CO_TRY_OK(co_await from.fetch({at, count}));
    for (const std::uint64_t end = at + count; at < end; ++at) {
      const auto block = from.block(at);
      CO_TRY_OK(ec::check_block(block, slice, at));
      const auto copy = stripe_of(block, at, slice.geometry.block_bytes);
      CO_TRY_OK(co_await to.push(copy, copy->block(0)));
    }
  }
  co_return co_await to.finish();
}

}  // namespace

Task<Result<std::shared_ptr<SliceLane>>> copy_slice(TargetNode& node, ObjectName name,
                                                    io::ObjectRecord version, SliceGoal goal,
                                                    Toll toll) {
  const io::Coding& coding = *version.coding;
  TARN_CHECK(goal.index < coding.holders.size());
  CO_TRY(const auto layout, ec::Layout::of(geometry_of(coding), version.size));
  const ec::SliceId slice{ec::SetId(coding.set), geometry_of(coding), goal.index};
  CO_TRY(const auto from,
         co_await SliceSource::open(node, coding.holders[goal.index],
                                    {name.bucket, name.object, coding.set, goal.index}, layout,
                                    {0, layout.stripes()}, TurnFor::background));
  CO_TRY(auto lane, co_await slice_remake_open_lane(node, name, coding, goal, layout.blocks_bytes(),
                                                    TurnFor::background));
  const Status copied = co_await copy_blocks(*from, slice, layout, *lane, toll);
  if (copied) co_return lane;
  lane->give_up();
  co_return fail(copied.error());
}

namespace {

/// Returns a lane for each goal; null: its holder takes none.
Task<Lanes> open_lanes(TargetNode& node, const ObjectName& name, const io::Coding& coding,
                       const std::vector<SliceGoal>& goals, std::uint64_t bytes, TurnFor purpose,
                       const Refused& refused) {
  std::vector<Task<Result<std::shared_ptr<SliceLane>>>> openings;
  openings.reserve(goals.size());
  for (const SliceGoal& goal : goals)
    openings.push_back(slice_remake_open_lane(node, name, coding, goal, bytes, purpose));
  Lanes out;
  for (auto& opened : co_await gather(std::move(openings))) {
    if (!opened && refused) refused(goals[out.size()].holder, opened.error());
    out.push_back(opened ? std::move(*opened) : nullptr);
  }
  TARN_CHECK(out.size() == goals.size());
  co_return out;
}

/// All that was to be pushed has been; those that did not take it become null.
Task<Status> finish(Lanes& lanes, Status made, const Refused& refused) {
  for (auto& lane : lanes) {
    if (lane == nullptr) continue;
    Status ended = made;
    if (ended) ended = co_await lane->finish();
    if (ended) continue;
    if (made && refused) refused(lane->holder(), ended.error());
    lane->give_up();
    lane = nullptr;
  }
  co_return made;
}

}  // namespace

Task<Result<Lanes>> remake_slices(TargetNode& node, ObjectName name,
                                  const io::ObjectRecord& version, std::vector<SliceGoal> goals,
                                  TurnFor purpose, Toll toll, Refused refused) {
  io::Coding coding = *version.coding;
  CO_TRY(const auto layout, ec::Layout::of(geometry_of(coding), version.size));
  Lanes lanes =
      co_await open_lanes(node, name, coding, goals, layout.blocks_bytes(), purpose, refused);
  // Slices that are made again are not read, even if they are there.
  for (const SliceGoal& goal : goals) {
    TARN_CHECK(goal.index < coding.holders.size());
    coding.holders[goal.index].clear();
  }
  const Lanes to = of_use(lanes);
  if (to.empty()) co_return lanes;
  // Just these: one that was opened may have failed already, and blocks come in the order of lanes.
  ec::SliceNumbers lost;
  for (const auto& lane : to) lost.insert(lane->index());
  if (lost.size() > layout.geometry().m) {
    for (const auto& lane : to) lane->give_up();
    co_return fail(Errc::unavailable, "{} slices of {} cannot be made out of the others",
                   lost.size(), name.object);
  }
  ec::Rebuilder rebuilder(layout, ec::SetId(coding.set), lost);
  SliceSet from(node, name, coding, layout, {0, layout.stripes()}, lost, purpose);
  CO_TRY_OK(co_await finish(lanes, co_await remake(rebuilder, from, to, toll), refused));
  co_return lanes;
}

namespace {

Task<Status> push_stripe(ec::Stripe stripe, const Lanes& to) {
  const auto shared = std::make_shared<const ec::Stripe>(std::move(stripe));
  bool any = false;
  for (const auto& lane : to) {
    if (lane == nullptr || lane->failed()) continue;
    const Status pushed = co_await lane->push(shared, shared->block(lane->index()));
    any = any || pushed;
  }
  if (any) co_return Status();
  co_return fail(Errc::unavailable, "no holder takes its slice any more");
}

/// The same slices as when the object was written: its set makes them so.
Task<Status> cut(FullCopySource& from, ec::Encoder encoder, std::uint64_t xxh64, const Lanes& to,
                 const Toll& toll) {
  const PooledBuffer buffer(PooledBuffer::kBlockBytes);
  while (true) {
    CO_TRY(const std::size_t got, co_await from.next(buffer.span()));
    if (got == 0) break;
    if (toll) CO_TRY_OK(co_await toll(got));
    for (std::span<const std::byte> rest = buffer.span().first(got); !rest.empty();) {
      rest = rest.subspan(encoder.write(rest));
      if (encoder.ready()) CO_TRY_OK(co_await push_stripe(encoder.take(), to));
    }
  }
  if (auto last = encoder.finish()) CO_TRY_OK(co_await push_stripe(std::move(*last), to));
  if (encoder.xxh64() == xxh64) co_return Status();
  co_return fail(Errc::checksum_mismatch, "the full copy is not what came here");
}

/// Memory of one part of an object, copied from a reader that needs its own again.
std::shared_ptr<const std::vector<std::byte>> copy_of(std::span<const std::byte> part) {
  return std::make_shared<const std::vector<std::byte>>(part.begin(), part.end());
}

Task<Status> copy_into(FullCopySource& from, SliceLane& lane, const Toll& toll) {
  while (true) {
    const auto part = std::make_shared<std::vector<std::byte>>(PooledBuffer::kSmallBytes);
    CO_TRY(const std::size_t got, co_await from.next(*part));
    if (got == 0) co_return co_await lane.finish();
    if (toll) CO_TRY_OK(co_await toll(got));
    CO_TRY_OK(co_await lane.push(part, std::span<const std::byte>(*part).first(got)));
  }
}

Task<Status> decode_into(CodedReader& reader, SliceLane& lane, const Toll& toll) {
  while (true) {
    CO_TRY(const auto parts, co_await reader.next());
    if (parts.empty()) co_return co_await lane.finish();
    for (const auto& part : parts) {
      if (toll) CO_TRY_OK(co_await toll(part.size()));
      const auto copy = copy_of(part);
      CO_TRY_OK(co_await lane.push(copy, *copy));
    }
  }
}

}  // namespace

Task<Result<Lanes>> cut_full_copy(TargetNode& node, ObjectName name,
                                  const io::ObjectRecord& version, std::vector<SliceGoal> goals,
                                  Toll toll, Refused refused) {
  const io::Coding& coding = *version.coding;
  CO_TRY(const auto layout, ec::Layout::of(geometry_of(coding), version.size));
  CO_TRY(auto encoder, ec::Encoder::of(geometry_of(coding), ec::SetId(coding.set)));
  CO_TRY(const auto full_copy,
         co_await FullCopySource::open(node, coding.full_copy,
                                       {name.bucket, name.object, coding.set, io::kFullCopy},
                                       version.size, TurnFor::background));
  Lanes lanes = co_await open_lanes(node, name, coding, goals, layout.blocks_bytes(),
                                    TurnFor::background, refused);
  const Status made = co_await cut(*full_copy, std::move(encoder), version.xxh64, lanes, toll);
  CO_TRY_OK(co_await finish(lanes, made, refused));
  co_return lanes;
}

Task<Result<std::shared_ptr<SliceLane>>> make_full_copy(TargetNode& node, ObjectName name,
                                                        io::ObjectRecord version, Toll toll) {
  CO_FAIL_POINT("full_copy.make");
  const io::Coding& coding = *version.coding;
  CO_TRY(auto lane, co_await slice_remake_open_lane(node, name, coding, {io::kFullCopy, node.id, 0},
                                                    version.size, TurnFor::background));
  Status made;
  if (coding.full_copy.empty()) {
    CodedReader reader(node, name, version, 0, version.size, TurnFor::background);
    made = co_await decode_into(reader, *lane, toll);
  } else {
    auto from = co_await FullCopySource::open(node, coding.full_copy,
                                              {name.bucket, name.object, coding.set, io::kFullCopy},
                                              version.size, TurnFor::background);
    made = from ? co_await copy_into(**from, *lane, toll) : fail(from.error());
  }
  if (made) co_return lane;
  lane->give_up();
  co_return fail(made.error());
}

}  // namespace tarn::target
