#include "target/drive/read_through.h"

#include <algorithm>

namespace tarn::target {
namespace {

constexpr std::uint64_t kBlocksAtOnce = 4;

}  // namespace

Task<Status> read_through(std::shared_ptr<OpenObject> object, Toll toll) {
  const std::uint64_t blocks = blocks_of(object->file_bytes());
  for (std::uint64_t block = 0; block < blocks; block += kBlocksAtOnce) {
    const std::uint64_t count = std::min(kBlocksAtOnce, blocks - block);
    if (toll) CO_TRY_OK(co_await toll(count * kBlockBytes));
    CO_TRY_OK(co_await object->read_anew(block, count));
  }
  co_return Status();
}

Task<Result<io::FileName>> read_slice_through(Drive& drive, SliceKey key, Toll toll) {
  CO_TRY(const auto slice, co_await drive.open_slice(key));
  if (!slice)
    co_return fail(Errc::object_not_found, "slice {} of {} is not on drive {}", key.index, key.name,
                   drive.path());
  CO_TRY_OK(co_await read_through(slice, std::move(toll)));
  if (key.index != io::kFullCopy) CO_TRY_OK(co_await drive.slice_label(key));
  co_return slice->record().file;
}

}  // namespace tarn::target
