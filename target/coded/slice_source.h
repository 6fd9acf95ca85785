#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/buffer_pool.h"
#include "ec/layout.h"
#include "target/coded/holder_calls.h"
#include "target/drive/block_reader.h"
#include "target/node/node.h"

namespace tarn::target {

/// Blocks of one slice, in order, from a drive of this target or from the slice's holder. For one
/// coroutine, which must not be ended while fetch() runs.
class SliceSource {
 public:
  /// Opens a source of the blocks of `stripes`. `layout`: of the object. Errors: object_not_found
  /// (no such slice there), timeout (`unless_slow`: it is on a slow drive), and those of
  /// SliceDownload::open() and SlicesHere::open().
  static Task<Result<std::unique_ptr<SliceSource>>> open(TargetNode& node, std::string holder,
                                                         SliceKey key, const ec::Layout& layout,
                                                         ec::Stripes stripes, TurnFor purpose,
                                                         bool unless_slow = false);

  /// Number of blocks that fit into its memory.
  [[nodiscard]] static std::uint64_t blocks_at_once(const ec::Layout& layout) {
    return PooledBuffer::kSmallBytes / layout.geometry().block_bytes;
  }
  /// Brings the blocks of the next stripes, at most blocks_at_once(). They are as the holder's
  /// drive returned them, which compared them; what came over the network must be compared again.
  Task<Status> fetch(ec::Stripes stripes);
  /// One of those that fetch() brought last, until the next fetch().
  [[nodiscard]] std::span<const std::byte> block(std::uint64_t stripe) const;
  [[nodiscard]] const std::string& holder() const { return holder_; }

 private:
  SliceSource(std::string holder, const ec::Layout& layout)
      : holder_(std::move(holder)), layout_(layout), buffer_(PooledBuffer::kSmallBytes) {}
  Task<Status> read_here(std::span<std::byte> into, std::uint64_t offset);

  const std::string holder_;
  const ec::Layout layout_;
  PooledBuffer buffer_;
  ec::Stripes fetched_;
  std::optional<SliceDownload> download_;
  // Reader of a slice that lies here, which is read by the MiB:
  std::unique_ptr<BlockReader> reader_;
  PooledBuffer read_;
  std::uint64_t read_begin_ = 0;  // part of the file in `read_`
  std::uint64_t read_end_ = 0;
};

}  // namespace tarn::target
