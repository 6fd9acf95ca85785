#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/async.h"
#include "common/base/error.h"
#include "target/drive/head_turns.h"
#include "target/drive/open_object.h"

namespace tarn::target {

class ReadAhead;

/// An object's blocks one after the other, for those who copy it: read in the drive's turns like
/// any reader's, and verified. For one coroutine, which must not be ended while next() runs.
class BlockReader {
 public:
  /// `object` must be held by a shared_ptr.
  explicit BlockReader(OpenObject& object, TurnFor purpose = TurnFor::client)
      : BlockReader(object, 0, object.file_bytes(), purpose) {}
  /// From the block of byte `begin` to that of the last before `end`.
  BlockReader(OpenObject& object, std::uint64_t begin, std::uint64_t end,
              TurnFor purpose = TurnFor::client);
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  /// The next block, into `into`, which has room for kBlockBytes; its length, 0 at the end. Errors
  /// as OpenObject::verify_block.
  Task<Result<std::size_t>> next(std::span<std::byte> into);

 private:
  const std::shared_ptr<OpenObject> object_;
  const std::uint64_t end_;
  const std::shared_ptr<ReadAhead> ahead_;
  std::uint64_t at_;
};

}  // namespace tarn::target
