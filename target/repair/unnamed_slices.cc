#include "target/repair/unnamed_slices.h"

#include <map>

#include "common/api/coding_props.h"
#include "common/obs/log.h"
#include "target/coded/holder_calls.h"
#include "target/coded/slice_holder.h"
#include "target/drive/slice_pages.h"

namespace tarn::target {
namespace {

void take_held(const SliceKey& key, const io::ObjectRecord& record, std::vector<HeldSlice>& to) {
  to.push_back({key, record.generation, record.slice->k, record.slice->file_bytes});
}

Task<void> ask_about(TargetNode& node, const cluster::BucketRecord& bucket,
                     std::vector<HeldSlice> slices, UnnamedSlices& counts) {
  const auto map = node.view.state()->ownership->map;
  std::map<std::string, std::vector<HeldSlice>> by_owner;
  for (HeldSlice& slice : slices) {
    const auto digest = cluster::placement_digest(name_in(bucket, slice.key.name).uname);
    by_owner[cluster::writer_of(*map, digest)].push_back(std::move(slice));
  }
  for (auto& [owner, of_owner] : by_owner) {
    counts.asked += of_owner.size();
    const auto verdicts = co_await ask_owner(node, owner, of_owner);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (verdicts[i].kind == SliceVerdict::Kind::wait) {
        ++counts.waiting;
        counts.unjudged[bucket.id].add({1, of_owner[i].bytes});
      }
      if (verdicts[i].kind != SliceVerdict::Kind::drop) continue;
      ++counts.dropped;
      obs::log("repair").debug("slice that no record needs dropped object={} slice={}",
                               of_owner[i].key.name, of_owner[i].key.index);
      drop_slice_later(node, {std::move(of_owner[i].key), verdicts[i].up_to});
    }
  }
}

}  // namespace

Task<Result<UnnamedSlices>> drop_unnamed(TargetNode& node) {
  UnnamedSlices counts;
  const auto state = node.view.state();
  for (const auto& [id, bucket] : state->bmd.buckets) {
    if (!api::was_ever_coded(bucket.props)) continue;
    for (const auto& drive : node.store.drives()) {
      if (!drive->in_service()) continue;
      SlicePages<HeldSlice> pages(*drive, bucket.id, take_held, {.items = kSlicesAtOnce});
      while (pages.more()) {
        CO_TRY(auto slices, co_await pages.next());
        co_await ask_about(node, bucket, std::move(slices), counts);
      }
    }
  }
  node.unjudged.set(counts.unjudged);
  co_return counts;
}

}  // namespace tarn::target
