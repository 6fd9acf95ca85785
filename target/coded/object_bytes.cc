#include "target/coded/object_bytes.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace tarn::target {
namespace {

/// Acknowledged before its slices, or nearly all of them are lost.
bool only_full_copy(const io::Coding& coding) {
  const auto named = std::count_if(coding.holders.begin(), coding.holders.end(),
                                   [](const std::string& holder) { return !holder.empty(); });
  return !coding.full_copy.empty() && named < coding.k;
}

}  // namespace

ObjectBytes::ObjectBytes(TargetNode& node, const ObjectName& name, OpenObject& object) {
  const io::ObjectRecord& record = object.record();
  if (record.coding && only_full_copy(*record.coding)) {
    full_copy_.emplace(FullCopy{node,
                                {name.bucket, name.object, record.coding->set, io::kFullCopy},
                                record.coding->full_copy,
                                record.size,
                                record.xxh64});
  } else if (record.coding) {
    coded_.emplace(node, name, record, 0, record.size);
  } else {
    blocks_.emplace(object);
  }
}

Task<Result<std::size_t>> ObjectBytes::next(std::span<std::byte> into) {
  if (blocks_) co_return co_await blocks_->next(into);
  if (full_copy_) co_return co_await next_of_full_copy(into);
  co_return co_await next_decoded(into);
}

Task<Result<std::size_t>> ObjectBytes::next_of_full_copy(std::span<std::byte> into) {
  if (full_copy_->source == nullptr) {
    CO_TRY(full_copy_->source,
           co_await FullCopySource::open(full_copy_->node, full_copy_->holder, full_copy_->key,
                                         full_copy_->bytes, TurnFor::client));
  }
  CO_TRY(const std::size_t got, co_await full_copy_->source->next(into));
  full_copy_->seen.update(into.first(got));
  if (got == 0 && full_copy_->seen.digest() != full_copy_->xxh64)
    co_return fail(Errc::corrupt, "the full copy of {} is not what was stored",
                   full_copy_->key.name);
  co_return got;
}

Task<Result<std::size_t>> ObjectBytes::next_decoded(std::span<std::byte> into) {
  std::size_t have = 0;
  while (have < into.size()) {
    if (parts_.empty()) {
      CO_TRY(parts_, co_await coded_->next());
      if (parts_.empty()) break;
    }
    TARN_CHECK(in_part_ <= parts_.front().size());
    const auto part = parts_.front().subspan(in_part_);
    const std::size_t bytes = std::min(part.size(), into.size() - have);
    std::memcpy(into.data() + have, part.data(), bytes);
    have += bytes;
    in_part_ += bytes;
    if (bytes < part.size()) break;
    parts_ = parts_.subspan(1);
    in_part_ = 0;
  }
  co_return have;
}

}  // namespace tarn::target
