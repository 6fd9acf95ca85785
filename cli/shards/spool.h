#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "cli/shards/shard_cutter.h"
#include "cli/transfer/source.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace tarn::cli {

/// The part of a stream that is still needed, in files without a name below one directory: they are
/// gone with the process, however it ends. Written by one thread; lease() and the leases are
/// thread-safe. A file goes when none of its bytes is needed.
class Spool {
 public:
  /// Below `directory`, or $TMPDIR, or /tmp when it is empty.
  [[nodiscard]] static Result<std::unique_ptr<Spool>> create(std::string directory);

  /// Bytes that may still be written there.
  [[nodiscard]] Result<std::uint64_t> room() const;
  [[nodiscard]] const std::string& directory() const { return directory_; }

  /// Appends; offsets count from the first byte ever written.
  Status write(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// These bytes will not be needed any more. Each byte once.
  void release(SpooledRange range);

  Status read(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  struct Segment {
    UniqueFd fd;
    std::uint64_t released = 0;
  };
  explicit Spool(std::string directory) : directory_(std::move(directory)) {}
  Result<UniqueFd> make_file() const;

  std::string directory_;
  std::uint64_t size_ = 0;
  mutable Mutex mutex_;
  /// By offset / kSegmentBytes.
  std::map<std::uint64_t, std::shared_ptr<Segment>> segments_ TARN_GUARDED_BY(mutex_);
};

/// A shard as the body of a PUT: prologue, members, end marker. Releases its bytes when it goes.
class ShardBody : public Body {
 public:
  ShardBody(Spool& spool, ShardPlan plan);
  ~ShardBody() override;
  ShardBody(const ShardBody&) = delete;
  ShardBody& operator=(const ShardBody&) = delete;

  [[nodiscard]] std::optional<std::uint64_t> length() const override { return plan_.bytes; }
  [[nodiscard]] bool rewind() override;
  Result<std::size_t> read(std::span<std::byte> into) override;
  [[nodiscard]] const ShardPlan& plan() const { return plan_; }

 private:
  Spool& spool_;
  ShardPlan plan_;
  std::string end_ = ShardPlan::end_marker();
  std::uint64_t in_prologue_ = 0;
  std::size_t range_ = 0;
  std::uint64_t in_range_ = 0;
  std::uint64_t in_end_ = 0;
};

}  // namespace tarn::cli
