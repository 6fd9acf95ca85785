#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace tarn::cli {

/// A file that gets its name when it is complete, so that nobody ever sees a short one. Without
/// publish() it is removed, also when SIGINT, SIGTERM or SIGHUP ends the program. At most 512 at a
/// time.
class ScratchFile {
 public:
  /// Makes an empty file in `directory` that will be called `name` there.
  [[nodiscard]] static Result<std::unique_ptr<ScratchFile>> create(UniqueFd directory,
                                                                   std::string name);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Empties it.
  Status restart();
  /// Gives it its name, in place of a file that has it now.
  Status publish();

 private:
  ScratchFile(UniqueFd directory, std::string name);

  UniqueFd directory_;
  UniqueFd fd_;
  std::string name_;
  std::string scratch_name_;
  int slot_ = -1;  ///< what the signal handler knows of it
  bool published_ = false;
};

/// Writes all of `bytes` to `fd`. Blocks.
Status write_all(int fd, std::span<const std::byte> bytes, std::string_view name);

}  // namespace tarn::cli
