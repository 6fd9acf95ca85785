#include "target/drive/block_reader.h"

#include "target/drive/drive.h"
#include "target/drive/read_ahead.h"

namespace tarn::target {

BlockReader::BlockReader(OpenObject& object, std::uint64_t begin, std::uint64_t end,
                         TurnFor purpose)
    : object_(object.shared_from_this()),
      end_(end),
      ahead_(std::make_shared<ReadAhead>(
          object_, begin / kBlockBytes * kBlockBytes, end_,
          ReadAhead::Options{.keep_cached = object_->begin_reading(), .purpose = purpose})),
      at_(begin / kBlockBytes * kBlockBytes) {}

BlockReader::~BlockReader() {
  object_->end_reading();
  ahead_->close();
}

Task<Result<std::size_t>> BlockReader::next(std::span<std::byte> into) {
  if (at_ >= end_) co_return std::size_t{0};
  // Waits until the whole block is there: the drive reports what it has brought block by block.
  CO_TRY_OK(co_await ahead_->ready(at_));
  CO_TRY(const std::size_t got, co_await object_->read_block(at_ / kBlockBytes, into));
  at_ += got;
  object_->drive().note_sent(got);
  ahead_->passed(at_);
  co_return got;
}

}  // namespace tarn::target
