#include "target/coded/slice_source.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace tarn::target {

Task<Result<std::unique_ptr<SliceSource>>> SliceSource::open(TargetNode& node, std::string holder,
                                                             SliceKey key, const ec::Layout& layout,
                                                             ec::Stripes stripes, TurnFor purpose,
                                                             bool unless_slow) {
  const ec::FileRange range = layout.file_range(stripes);
  std::unique_ptr<SliceSource> source(new SliceSource(holder, layout));
  if (holder != node.id) {
    CO_TRY(source->download_,
           co_await SliceDownload::open(node, std::move(holder),
                                        {std::move(key), range, purpose, unless_slow}));
    co_return source;
  }
  CO_TRY(const auto slice, co_await node.store.slices().open(key, unless_slow));
  if (slice->file_bytes() != layout.blocks_bytes())
    co_return fail(Errc::corrupt, "slice {} of {} is of an object of another size", key.index,
                   key.name);
  source->reader_ =
      std::make_unique<BlockReader>(*slice, range.offset, range.offset + range.bytes, purpose);
  source->read_ = PooledBuffer(PooledBuffer::kBlockBytes);
  source->read_begin_ = source->read_end_ = range.offset / kBlockBytes * kBlockBytes;
  co_return source;
}

Task<Status> SliceSource::fetch(ec::Stripes stripes) {
  TARN_CHECK(stripes.count <= blocks_at_once(layout_));
  // The bytes come in a row: after a gap they would be those of other blocks.
  TARN_CHECK(fetched_.count == 0 || stripes.first == fetched_.first + fetched_.count);
  const ec::FileRange range = layout_.file_range(stripes);
  const auto into = buffer_.span().first(range.bytes);
  fetched_ = {};
  if (download_) {
    CO_TRY_OK(co_await download_->read(into));
  } else {
    CO_TRY_OK(co_await read_here(into, range.offset));
  }
  fetched_ = stripes;
  co_return Status();
}

Task<Status> SliceSource::read_here(std::span<std::byte> into, std::uint64_t offset) {
  while (!into.empty()) {
    if (offset >= read_end_) {
      CO_TRY(const std::size_t got, co_await reader_->next(read_.span()));
      if (got == 0) co_return fail(Errc::corrupt, "a slice here ends too early");
      read_begin_ = read_end_;
      read_end_ += got;
      continue;
    }
    TARN_CHECK(read_begin_ <= offset);
    const auto there =
        std::span<const std::byte>(read_.span())
            .subspan(offset - read_begin_, std::min(read_end_ - offset, into.size()));
    std::memcpy(into.data(), there.data(), there.size());
    into = into.subspan(there.size());
    offset += there.size();
  }
  co_return Status();
}

std::span<const std::byte> SliceSource::block(std::uint64_t stripe) const {
  TARN_CHECK(stripe >= fetched_.first && stripe - fetched_.first < fetched_.count);
  const std::uint64_t begin = layout_.block_offset(fetched_.first);
  return std::span<const std::byte>(buffer_.span())
      .subspan(layout_.block_offset(stripe) - begin, layout_.block_bytes(stripe));
}

}  // namespace tarn::target
