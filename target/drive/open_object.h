#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/hash.h"
#include "common/base/unique_fd.h"
#include "common/io/object_attribute.h"
#include "ec/layout.h"
#include "ec/slice_format.h"

namespace tarn::target {

class Drive;

/// The unit of block checksums: every MiB of a file has a CRC32C in the index.
inline constexpr std::uint64_t kBlockBytes = 1U << 20U;
[[nodiscard]] constexpr std::uint64_t blocks_of(std::uint64_t size) {
  return (size + kBlockBytes - 1) / kBlockBytes;
}

/// State of a file while and after it is read: which blocks have been compared with their checksums
/// since their pages came in, and when it was read. Shared by its readers. Thread-safe.
class VerifiedBlocks {
 public:
  explicit VerifiedBlocks(std::size_t count) : blocks_(count) {}
  [[nodiscard]] bool get(std::size_t block) const {
    TARN_CHECK(block < blocks_.size());
    return blocks_[block].load() != 0;
  }
  void set(std::size_t block, bool verified) {
    TARN_CHECK(block < blocks_.size());
    blocks_[block].store(verified ? 1 : 0);
  }
  /// Notes what came of reading a block: one that could not be had as it was stored stays noted
  /// until it can, or until another one fails.
  void note_read(std::size_t block, bool good) {
    if (!good) failed_.store(block + 1);
    if (good && failed_.load() == block + 1) failed_.store(0);
  }
  [[nodiscard]] std::optional<std::size_t> failed() const {
    const std::size_t noted = failed_.load();
    return noted == 0 ? std::nullopt : std::optional(noted - 1);
  }
  /// Notes a read by the clock of CachePolicy; 0: never. Returns the time before.
  std::uint64_t read_again(std::uint64_t now) { return last_read_.exchange(now); }
  /// Readers at this moment.
  std::atomic<std::uint32_t> readers{0};

 private:
  std::vector<std::atomic<std::uint8_t>> blocks_;
  std::atomic<std::uint64_t> last_read_{0};
  std::atomic<std::size_t> failed_{0};  // its number + 1
};

/// An object opened for reading: it stays readable when the name is overwritten or deleted. The
/// last owner's end closes the file on the drive's threads. Shared by readers once it has all its
/// checksums (OpenObjects).
///
/// Blocks are those of its file. A coded object's file is empty: it has all its checksums, none.
/// A slice of one is read in the same way: what stands at the end of each of its own blocks (ec/)
/// is compared in place of checksums of the index.
///
/// An object that was adopted has no block checksums until its file has been read once, by
/// adopt_block() from the first block to the last; nothing else can verify it until then.
class OpenObject : public std::enable_shared_from_this<OpenObject> {
 public:
  OpenObject(Drive& drive, io::ObjectRecord record, UniqueFd fd,
             std::vector<std::uint32_t> checksums, std::shared_ptr<VerifiedBlocks> verified);
  /// A slice, whose record is of kind slice; `layout`: of the object that it is of.
  OpenObject(Drive& drive, io::ObjectRecord record, UniqueFd fd, const ec::Layout& layout,
             std::shared_ptr<VerifiedBlocks> verified);
  ~OpenObject();
  OpenObject(const OpenObject&) = delete;
  OpenObject& operator=(const OpenObject&) = delete;

  [[nodiscard]] const io::ObjectRecord& record() const { return record_; }
  [[nodiscard]] Drive& drive() const { return drive_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Bytes of the file, and so what the blocks are of: not the object's size when that is coded. Of
  /// a slice without the label after its blocks.
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] bool has_checksums() const { return known_.load() == blocks_of(file_bytes_); }
  [[nodiscard]] bool has_checksum(std::uint64_t block) const { return block < known_.load(); }
  /// CRC32C of a block for which has_checksum() holds. Not of a slice.
  [[nodiscard]] std::uint32_t checksum(std::uint64_t block) const { return checksums_[block]; }
  /// The header lines of an answer that describe the object (record_fields.h), as they go out.
  [[nodiscard]] const std::string& field_lines() const { return field_lines_; }
  /// Notes that the file is being read from now on, until end_reading(). Returns true if its pages
  /// should stay in the cache.
  [[nodiscard]] bool begin_reading();
  void end_reading();
  /// True if these bytes may be sent by the event loop: in memory, and verified since they came
  /// there.
  [[nodiscard]] bool may_send(std::uint64_t offset, std::uint64_t bytes) const;
  /// A block of these bytes that a reader could not have, for other readers to try before they
  /// begin.
  [[nodiscard]] std::optional<std::uint64_t> failed_block(std::uint64_t offset,
                                                          std::uint64_t bytes) const;
  /// Copies such bytes. False when they may not be sent, or the file system cannot answer in time:
  /// then may_send() does.
  [[nodiscard]] bool copy_from_memory(std::uint64_t offset, std::span<std::byte> into) const;

  // Blocking, on the drive's threads:

  /// Has the kernel begin to read these bytes.
  void will_need(std::uint64_t offset, std::uint64_t bytes);
  /// Brings one block into the page cache and compares it with its checksum. corrupt: these bytes
  /// are not what was stored.
  Status verify_block(std::uint64_t block);
  /// The same for a file without checksums: takes them. After the last block the whole must have
  /// the object's checksum (else corrupt), and the block checksums are put into the index. Blocks
  /// in their order only, by one reader of this OpenObject.
  Status adopt_block(std::uint64_t block);
  /// Adopts the whole file.
  Status adopt();
  /// Drops the pages of bytes that were sent, unless the file has another reader.
  void drop_behind(std::uint64_t offset, std::uint64_t bytes);

  /// Reads one block into `into` (which has room for it) and compares it with its checksum. Returns
  /// its length. Adopts the file first when that has not been done. Hops to the drive's threads and
  /// back. Errors as verify_block.
  Task<Result<std::size_t>> read_block(std::uint64_t block, std::span<std::byte> into);
  /// Compares `count` blocks from `first` on with their checksums, in a turn of the drive. Unless
  /// the file has another reader, they come from the drive anew and leave no pages in the cache. Of
  /// a file without checksums the first call reads and compares all. Hops to the drive's threads
  /// and back. Errors as verify_block.
  Task<Status> read_anew(std::uint64_t first, std::uint64_t count);

 private:
  [[nodiscard]] std::size_t bytes_of(std::uint64_t block) const;
  template <class Sink>
  Status read_chunks(std::uint64_t block, const Sink& sink);
  Status read_anew_now(std::uint64_t first, std::uint64_t count);
  Status compare_block(std::uint64_t block);
  Status read_and_check(std::uint64_t block, std::span<std::byte> into);
  Result<std::size_t> read_block_now(std::uint64_t block, std::span<std::byte> into);
  Status check_block(std::uint64_t block, std::uint32_t crc);
  Status check_slice(std::uint64_t offset, std::span<const std::byte> blocks);
  void note_verified(std::uint64_t block);

  Drive& drive_;
  io::ObjectRecord record_;
  const std::uint64_t file_bytes_;
  const std::string field_lines_;
  UniqueFd fd_;
  std::vector<std::uint32_t> checksums_;
  std::atomic<std::uint64_t> known_;  // of these; grows while a file is adopted
  struct Slice {
    ec::SliceId id;
    ec::Layout layout;
  };
  const std::optional<Slice> slice_;
  std::optional<Xxh64Stream> adopted_;  // of the blocks that adopt_block() has seen
  std::shared_ptr<VerifiedBlocks> verified_;
};

}  // namespace tarn::target
