#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "cli/scratch_file.h"
#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace tarn::cli {

/// Where `get` writes: a file that appears when it is complete, or a stream (standard output, a
/// pipe, a device), whose bytes cannot be taken back. Blocks.
class Sink {
 public:
  /// "-" is the standard output.
  [[nodiscard]] static Result<Sink> open(const std::string& path);

  Status write(std::span<const std::byte> bytes);
  /// Forgets what was written. False when it cannot be taken back.
  [[nodiscard]] Result<bool> restart();
  /// All is there and right: the file gets its name.
  Status publish();

 private:
  std::string path_;
  UniqueFd stream_;
  std::unique_ptr<ScratchFile> file_;
  bool written_ = false;
};

}  // namespace tarn::cli
