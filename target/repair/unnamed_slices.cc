#include "target/repair/unnamed_slices.h"

#include <map>

#include "common/api/coding_props.h"
#include "common/obs/log.h"
#include "target/coded/holder_calls.h"
#include "target/coded/slice_holder.h"

namespace tarn::target {
namespace {

/// The next slices of a drive, and the key after which to go on.
struct UnnamedSlicesPage {
  std::vector<HeldSlice> slices;
  std::optional<SliceKey> last;
  bool more = false;
};

Task<Result<UnnamedSlicesPage>> unnamed_slices_next_page(Drive& drive, BucketId bucket,
                                                         std::optional<SliceKey> after) {
  UnnamedSlicesPage page;
  const auto visit = [&](const SliceKey& key, const io::ObjectRecord& record) {
    page.slices.push_back({key, record.generation, record.slice->k, record.slice->file_bytes});
    page.last = key;
    page.more = page.slices.size() == kSlicesAtOnce;
    return !page.more;
  };
  CO_TRY_OK(co_await drive.walk_slices(bucket, std::move(after), visit));
  co_return page;
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
      std::optional<SliceKey> after;
      for (bool more = true; more;) {
        CO_TRY(UnnamedSlicesPage page, co_await unnamed_slices_next_page(*drive, bucket.id, after));
        more = page.more;
        after = page.last;
        co_await ask_about(node, bucket, std::move(page.slices), counts);
      }
    }
  }
  node.unjudged.set(counts.unjudged);
  co_return counts;
}

}  // namespace tarn::target
