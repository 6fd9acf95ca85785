#include "target/coded/full_copy_source.h"

#include <algorithm>

namespace tarn::target {

Task<Result<std::unique_ptr<FullCopySource>>> FullCopySource::open(TargetNode& node,
                                                                   std::string holder, SliceKey key,
                                                                   std::uint64_t bytes,
                                                                   TurnFor purpose) {
  std::unique_ptr<FullCopySource> source(new FullCopySource(bytes));
  if (holder == node.id) {
    CO_TRY(source->object_, co_await node.store.slices().open(std::move(key)));
    source->blocks_.emplace(*source->object_, purpose);
  } else {
    CO_TRY(source->download_, co_await SliceDownload::open(node, std::move(holder),
                                                           {std::move(key), {0, bytes}, purpose}));
  }
  co_return std::move(source);
}

Task<Result<std::size_t>> FullCopySource::next(std::span<std::byte> into) {
  if (blocks_) co_return co_await blocks_->next(into);
  const auto part = into.first(std::min<std::uint64_t>(into.size(), rest_));
  if (!part.empty()) CO_TRY_OK(co_await download_->read(part));
  rest_ -= part.size();
  co_return part.size();
}

}  // namespace tarn::target
