#include "target/coded/object_bytes.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace tarn::target {
namespace {

/// Acknowledged before its slices, or nearly all of them are lost.
bool only_whole(const io::Coding& coding) {
  const auto named = std::count_if(coding.homes.begin(), coding.homes.end(),
                                   [](const std::string& home) { return !home.empty(); });
  return !coding.whole.empty() && named < coding.k;
}

}  // namespace

ObjectBytes::ObjectBytes(TargetNode& node, const ObjectName& name, OpenObject& object) {
  const io::ObjectRecord& record = object.record();
  if (record.coding && only_whole(*record.coding)) {
    whole_.emplace(Whole{node,
                         {name.bucket, name.object, record.coding->set, io::kWhole},
                         record.coding->whole,
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
  if (whole_) co_return co_await next_of_whole(into);
  co_return co_await next_decoded(into);
}

Task<Result<std::size_t>> ObjectBytes::next_of_whole(std::span<std::byte> into) {
  if (whole_->source == nullptr) {
    CO_TRY(whole_->source, co_await WholeSource::open(whole_->node, whole_->home, whole_->key,
                                                      whole_->bytes, TurnFor::client));
  }
  CO_TRY(const std::size_t got, co_await whole_->source->next(into));
  whole_->seen.update(into.first(got));
  if (got == 0 && whole_->seen.digest() != whole_->xxh64)
    co_return fail(Errc::corrupt, "the whole of {} is not what was stored", whole_->key.name);
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
