#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "target/coded/holder_calls.h"
#include "target/drive/block_reader.h"

namespace tarn::target {

/// Bytes of the full copy of an object, in order, from its holder: this target or another one.
/// Compared with what was stored there; what the network did to them since is the caller's to see.
/// For one coroutine.
class FullCopySource {
 public:
  /// `bytes`: of the object. Errors as SlicesHere::open() and SliceDownload::open().
  static Task<Result<std::unique_ptr<FullCopySource>>> open(TargetNode& node, std::string holder,
                                                            SliceKey key, std::uint64_t bytes,
                                                            TurnFor purpose);

  /// The next bytes: fills a part of `into`, at most 1 MiB. 0: all were returned.
  Task<Result<std::size_t>> next(std::span<std::byte> into);

 private:
  explicit FullCopySource(std::uint64_t bytes) : rest_(bytes) {}

  std::shared_ptr<OpenObject> object_;  // here
  std::optional<BlockReader> blocks_;
  std::optional<SliceDownload> download_;  // elsewhere
  std::uint64_t rest_;
};

}  // namespace tarn::target
