#pragma once

#include <cstdint>
#include <span>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace tarn::target {

class Drive;

/// An unfinished file, opened once more for readers that follow its writer. Stays readable when the
/// file is published or dropped. Made by Drive::follow(); closed on the drive's threads.
/// Thread-safe.
class FollowedFile {
 public:
  FollowedFile(Drive& drive, UniqueFd fd);
  ~FollowedFile();
  FollowedFile(const FollowedFile&) = delete;
  FollowedFile& operator=(const FollowedFile&) = delete;

  /// Reads bytes that have been written. Hops to the drive's threads and back; `into` must stay
  /// until then.
  Task<Status> read(std::span<std::byte> into, std::uint64_t offset);

 private:
  Drive& drive_;
  UniqueFd fd_;
};

}  // namespace tarn::target
