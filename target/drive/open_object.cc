#include "target/drive/open_object.h"

#include <algorithm>
#include <unistd.h>

#include "common/base/buffer_pool.h"
#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/drive.h"
#include "target/drive/record_fields.h"
#include "target/drive/run_in_turn.h"
#include "target/drive/slice_ids.h"

namespace tarn::target {
namespace {

/// Bytes that are read at once: stay in the processor's cache until their checksum has been taken.
constexpr std::uint64_t kChunkBytes = PooledBuffer::kSmallBytes;

}  // namespace

OpenObject::OpenObject(Drive& drive, io::ObjectRecord record, UniqueFd fd,
                       std::vector<std::uint32_t> checksums,
                       std::shared_ptr<VerifiedBlocks> verified)
    : drive_(drive),
      record_(std::move(record)),
      file_bytes_(record_.file_bytes()),
      field_lines_(object_field_lines(record_)),
      fd_(std::move(fd)),
      checksums_(std::move(checksums)),
      known_(checksums_.size()),
      verified_(std::move(verified)) {
  TARN_CHECK(checksums_.empty() || has_checksums());
  ++drive_.open_objects_;
}

OpenObject::OpenObject(Drive& drive, io::ObjectRecord record, UniqueFd fd, const ec::Layout& layout,
                       std::shared_ptr<VerifiedBlocks> verified)
    : drive_(drive),
      record_(std::move(record)),
      file_bytes_(layout.blocks_bytes()),
      fd_(std::move(fd)),
      known_(blocks_of(file_bytes_)),
      slice_({slice_id_of(*record_.slice), layout}),
      verified_(std::move(verified)) {
  ++drive_.open_objects_;
}

OpenObject::~OpenObject() {
  // The last close of an unlinked file frees its blocks: 571 ms for 3 GB. Never on an event loop.
  drive_.threads_->post([fd = fd_.release(), &drive = drive_] {
    ::close(fd);
    const std::size_t open = drive.open_objects_--;
    TARN_CHECK(open > 0);
  });
}

bool OpenObject::may_send(std::uint64_t offset, std::uint64_t bytes) const {
  if (bytes == 0) return true;
  const std::uint64_t last = (offset + bytes - 1) / kBlockBytes;
  // Blocks that other readers verified are adopted here all the same, in their order.
  if (!has_checksum(last)) return false;
  for (std::uint64_t block = offset / kBlockBytes; block <= last; ++block)
    if (!verified_->get(block)) return false;
  if (io::is_resident(fd_.get(), offset, bytes)) return true;
  // Bytes that the drive brings next time are to be verified again.
  for (std::uint64_t block = offset / kBlockBytes; block <= last; ++block)
    verified_->set(block, false);
  return false;
}

bool OpenObject::copy_from_memory(std::uint64_t offset, std::span<std::byte> into) const {
  if (!may_send(offset, into.size())) return false;
  if (io::read_without_waiting(fd_.get(), into, offset)) return true;
  // Gone in this moment: what the drive brings instead is to be looked at anew.
  const std::uint64_t last = (offset + into.size() - 1) / kBlockBytes;
  for (std::uint64_t block = offset / kBlockBytes; block <= last; ++block)
    verified_->set(block, false);
  return false;
}

bool OpenObject::begin_reading() {
  ++verified_->readers;
  const CachePolicy& policy = *drive_.cache_policy_;
  return policy.keep(verified_->read_again(policy.now()));
}

void OpenObject::end_reading() {
  const std::uint32_t readers = verified_->readers--;
  TARN_CHECK(readers > 0);
}

std::size_t OpenObject::bytes_of(std::uint64_t block) const {
  TARN_CHECK(block * kBlockBytes <= file_bytes_);
  return std::min<std::uint64_t>(kBlockBytes, file_bytes_ - block * kBlockBytes);
}

Status OpenObject::check_block(std::uint64_t block, std::uint32_t crc) {
  if (SAFETY("safety.block_checksum") && crc != checksums_[block]) {
    ++drive_.counters_.corrupt_blocks;
    obs::log("drive").error("block does not match its checksum drive={} file={} block={}",
                            drive_.path(), record_.file.path(), block);
    return fail(Errc::corrupt,
                "block {} of file {} on drive {} does not match its checksum: the drive returned "
                "other bytes than were stored",
                block, record_.file.path(), drive_.path());
  }
  note_verified(block);
  return {};
}

/// Some whole blocks of a slice, which begin at `offset` of its file.
Status OpenObject::check_slice(std::uint64_t offset, std::span<const std::byte> blocks) {
  std::uint64_t stripe = offset / slice_->layout.geometry().block_bytes;
  for (; !blocks.empty(); ++stripe) {
    const std::size_t bytes = slice_->layout.block_bytes(stripe);
    TARN_CHECK(bytes <= blocks.size());
    const Status good = ec::check_block(blocks.first(bytes), slice_->id, stripe);
    if (!good && SAFETY("safety.check_slice")) {
      ++drive_.counters_.corrupt_blocks;
      obs::log("drive").error("slice is not what was stored drive={} file={} err={}", drive_.path(),
                              record_.file.path(), good.error().message);
      return fail(Errc::corrupt, "file {} on drive {}: {}", record_.file.path(), drive_.path(),
                  good.error().message);
    }
    blocks = blocks.subspan(bytes);
  }
  return {};
}

void OpenObject::note_verified(std::uint64_t block) {
  drive_.counters_.bytes_verified += bytes_of(block);
  verified_->set(block, true);
}

std::optional<std::uint64_t> OpenObject::failed_block(std::uint64_t offset,
                                                      std::uint64_t bytes) const {
  const auto block = verified_->failed();
  // Without a checksum it cannot be tried alone.
  const bool is_here = block && has_checksum(*block) && *block >= offset / kBlockBytes &&
                       std::uint64_t{*block} * kBlockBytes < offset + bytes;
  return is_here ? block : std::nullopt;
}

Status OpenObject::read_and_check(std::uint64_t block, std::span<std::byte> into) {
  TRY_OK(drive_.read_file(fd_.get(), record_.file, into, block * kBlockBytes));
  if (!slice_) return check_block(block, crc32c(into));
  TRY_OK(check_slice(block * kBlockBytes, into));
  note_verified(block);
  return {};
}

Result<std::size_t> OpenObject::read_block_now(std::uint64_t block, std::span<std::byte> into) {
  TARN_CHECK(bytes_of(block) <= into.size());
  const auto chunk = into.first(bytes_of(block));
  const Status good = read_and_check(block, chunk);
  verified_->note_read(block, good.has_value());
  if (!good) return fail(good.error());
  return chunk.size();
}

Task<Result<std::size_t>> OpenObject::read_block(std::uint64_t block, std::span<std::byte> into) {
  if (!has_checksum(block)) CO_TRY_OK(co_await drive_.adopt(*this));
  auto work = [this, block, into] { return read_block_now(block, into); };
  co_return co_await drive_.threads_->run(work);
}

void OpenObject::will_need(std::uint64_t offset, std::uint64_t bytes) {
  // Blocks that were verified and have left memory since are about to come anew. They may not be
  // sent before they are verified again.
  for (std::uint64_t at = offset / kBlockBytes * kBlockBytes; at < offset + bytes;
       at += kBlockBytes) {
    const std::uint64_t block = at / kBlockBytes;
    if (verified_->get(block) && !io::is_resident(fd_.get(), at, bytes_of(block)))
      verified_->set(block, false);
  }
  drive_.files_->start_readahead(fd_.get(), offset, bytes);
}

/// Reads a block and shows it to `sink` chunk by chunk, with where each begins. The pages that it
/// came through stay: the event loop sends them.
template <class Sink>
Status OpenObject::read_chunks(std::uint64_t block, const Sink& sink) {
  const PooledBuffer buffer(kChunkBytes);
  const std::uint64_t start = block * kBlockBytes;
  const std::size_t bytes = bytes_of(block);
  for (std::size_t at = 0; at < bytes; at += kChunkBytes) {
    const auto chunk = buffer.span().first(std::min<std::size_t>(kChunkBytes, bytes - at));
    TRY_OK(drive_.read_file(fd_.get(), record_.file, chunk, start + at));
    TRY_OK(sink(start + at, chunk));
  }
  return {};
}

Status OpenObject::verify_block(std::uint64_t block) {
  const Status good = compare_block(block);
  verified_->note_read(block, good.has_value());
  return good;
}

Status OpenObject::compare_block(std::uint64_t block) {
  if (slice_) {
    // Chunks begin and end with blocks of the slice, which are powers of two and smaller.
    TRY_OK(read_chunks(block, [this](std::uint64_t offset, std::span<const std::byte> chunk) {
      return check_slice(offset, chunk);
    }));
    note_verified(block);
    return {};
  }
  std::uint32_t crc = 0;
  TRY_OK(read_chunks(block, [&](std::uint64_t, std::span<const std::byte> chunk) {
    crc = crc32c(chunk, crc);
    return Status();
  }));
  return check_block(block, crc);
}

Status OpenObject::adopt_block(std::uint64_t block) {
  if (block == 0) {
    adopted_.emplace();
    checksums_.reserve(blocks_of(file_bytes_));  // read_block() may look at it meanwhile
  }
  std::uint32_t crc = 0;
  TRY_OK(read_chunks(block, [&](std::uint64_t, std::span<const std::byte> chunk) {
    crc = crc32c(chunk, crc);
    adopted_->update(chunk);
    return Status();
  }));
  checksums_.push_back(crc);
  const bool last = checksums_.size() == blocks_of(file_bytes_);
  if (!last) {
    known_ = checksums_.size();
    return {};
  }
  if (SAFETY("safety.block_checksum") && adopted_->digest() != record_.xxh64) {
    checksums_.pop_back();
    ++drive_.counters_.corrupt_blocks;
    obs::log("drive").error("object does not match its checksum drive={} file={} etag={}",
                            drive_.path(), record_.file.path(), record_.etag());
    return fail(Errc::corrupt, "file {} on drive {} does not match the object's checksum {}",
                record_.file.path(), drive_.path(), record_.etag());
  }
  known_ = checksums_.size();
  drive_.counters_.bytes_verified += file_bytes_;
  for (std::size_t each = 0; each < checksums_.size(); ++each) verified_->set(each, true);
  IndexBatch batch;
  batch.put_block_checksums(record_.file, checksums_);
  return drive_.index_->commit_lazily(std::move(batch));
}

Status OpenObject::adopt() {
  checksums_.clear();
  for (std::uint64_t block = 0; block < blocks_of(file_bytes_); ++block) {
    if (block % 16 == 0)
      will_need(block * kBlockBytes,
                std::min<std::uint64_t>(16 * kBlockBytes, file_bytes_ - block * kBlockBytes));
    TRY_OK(adopt_block(block));
  }
  return {};
}

Status OpenObject::read_anew_now(std::uint64_t first, std::uint64_t count) {
  TARN_CHECK(first + count <= blocks_of(file_bytes_));
  const std::uint64_t begin = first * kBlockBytes;
  const std::uint64_t bytes = std::min(file_bytes_ - begin, count * kBlockBytes);
  const bool alone = verified_->readers.load() == 0;
  if (alone) drive_.files_->drop_cache(fd_.get(), begin, bytes);
  will_need(begin, bytes);
  Status good;
  for (std::uint64_t block = first; good && block < first + count; ++block)
    good = verify_block(block);
  if (alone && verified_->readers.load() == 0) drive_.files_->drop_cache(fd_.get(), begin, bytes);
  return good;
}

Task<Status> OpenObject::read_anew(std::uint64_t first, std::uint64_t count) {
  if (!has_checksums()) co_return co_await drive_.adopt(*this);
  co_return co_await run_in_turn(
      drive_.turns(), *drive_.threads_, [=, this] { return read_anew_now(first, count); },
      TurnFor::background);
}

void OpenObject::drop_behind(std::uint64_t offset, std::uint64_t bytes) {
  if (verified_->readers > 1) return;
  drive_.threads_->post([&drive = drive_, fd = ::dup(fd_.get()), offset, bytes] {
    drive.files_->drop_cache(fd, offset, bytes);
    ::close(fd);
  });
}

}  // namespace tarn::target
