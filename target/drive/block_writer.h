#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "common/base/async.h"
#include "common/base/error.h"
#include "target/drive/digests.h"

namespace tarn::target {

// Bytes that are written into a work file chunk after chunk. Errors are those of the source and of
// Drive::write().

/// Puts the next chunk of the bytes into a buffer of kBlockBytes; its length, 0 at the end.
using NextChunk = std::function<Task<Result<std::size_t>>(std::span<std::byte>)>;
/// Writes chunks into `file` from `at` on: while the drive writes one, the next is fetched. Returns
/// the offset after the last. The drive writes nothing after this has ended, even by a
/// cancellation.
Task<Result<std::uint64_t>> write_from(WorkFile& file, std::uint64_t at, NextChunk next);
/// Appends chunks to `file`, and adds them to its digests.
Task<Status> write_chunks(WorkFile& file, Digests& digests, NextChunk next);
/// Copies the verified bytes of an object's file.
Task<Status> copy_file(OpenObject& from, WorkFile& file, Digests& digests);

}  // namespace tarn::target
