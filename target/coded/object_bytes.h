#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "target/coded/coded_read.h"
#include "target/coded/full_copy_source.h"
#include "target/drive/block_reader.h"

namespace tarn::target {

/// An object's bytes from the first to the last, for callers that copy it. A coded object comes
/// from its slices, or from its full copy as long as there are too few of these. For one coroutine,
/// which must not be ended while next() runs.
class ObjectBytes {
 public:
  /// `object`, which must be held by a shared_ptr, is what `name` has here.
  ObjectBytes(TargetNode& node, const ObjectName& name, OpenObject& object);

  /// The next bytes, into `into`, which has room for kBlockBytes; how many, 0 at the end. Errors as
  /// BlockReader::next() and CodedReader::next().
  Task<Result<std::size_t>> next(std::span<std::byte> into);

 private:
  Task<Result<std::size_t>> next_decoded(std::span<std::byte> into);
  Task<Result<std::size_t>> next_of_full_copy(std::span<std::byte> into);

  /// A full copy that is read, wherever it is.
  struct FullCopy {
    TargetNode& node;
    SliceKey key;
    std::string holder;
    std::uint64_t bytes;
    std::uint64_t xxh64;
    std::unique_ptr<FullCopySource> source = nullptr;  // null: not opened yet
    Xxh64Stream seen = {};
  };
  std::optional<FullCopy> full_copy_;
  std::optional<BlockReader> blocks_;
  std::optional<CodedReader> coded_;
  std::span<const std::span<const std::byte>> parts_;  // of the coded object, not yet returned
  std::size_t in_part_ = 0;                            // bytes of the first that were
};

}  // namespace tarn::target
