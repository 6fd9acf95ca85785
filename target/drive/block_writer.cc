#include "target/drive/block_writer.h"

#include <array>
#include <exception>

#include "common/base/buffer_pool.h"
#include "common/base/check.h"
#include "target/drive/block_reader.h"

namespace tarn::target {
namespace {

Task<Result<std::size_t>> next_digested(NextChunk& next, Digests& digests,
                                        std::span<std::byte> into) {
  CO_TRY(const std::size_t got, co_await next(into));
  digests.update(into.first(got));
  co_return got;
}

}  // namespace

Task<Result<std::uint64_t>> write_from(WorkFile& file, std::uint64_t at, NextChunk next) {
  std::array<PooledBuffer, 2> buffers{PooledBuffer(PooledBuffer::kBlockBytes),
                                      PooledBuffer(PooledBuffer::kBlockBytes)};
  io::DriveThreads::Pending<Status> writing;
  Status result;
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  for (std::size_t turn = 0;; turn ^= 1U) {
    const auto buffer = buffers[turn].span();
    Result<std::size_t> got = std::size_t{0};
    std::exception_ptr problem;
    try {
      got = co_await next(buffer);
    } catch (...) {
      problem = std::current_exception();
    }
    // A cancelled caller waits, too: a drive writes from the other buffer to the file.
    co_await asio::this_coro::throw_if_cancelled(false);
    if (writing.valid()) result = co_await writing.get();
    co_await asio::this_coro::throw_if_cancelled(throws);
    if (problem) std::rethrow_exception(problem);
    if (result) result = co_await file.drive().room(file);
    if (!got && result) result = fail(got.error());
    if (!result) co_return fail(result.error());
    if (*got == 0) co_return at;
    TARN_CHECK(*got <= buffer.size());
    writing = file.drive().write(file, buffer.first(*got), at);
    at += *got;
  }
}

Task<Status> write_chunks(WorkFile& file, Digests& digests, NextChunk next) {
  const auto digested = [&](std::span<std::byte> into) {
    return next_digested(next, digests, into);
  };
  CO_TRY(const std::uint64_t end, co_await write_from(file, digests.size(), digested));
  // Checksums of all that is in the file, and of nothing else.
  TARN_CHECK(end == digests.size());
  co_return Status();
}

Task<Status> copy_file(OpenObject& from, WorkFile& file, Digests& digests) {
  BlockReader blocks(from);
  const auto next = [&](std::span<std::byte> into) { return blocks.next(into); };
  co_return co_await write_chunks(file, digests, next);
}

}  // namespace tarn::target
