#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "common/base/error.h"
#include "common/base/hash.h"
#include "common/base/unique_fd.h"

namespace tarn::cli {

/// A file that gets its name when it is complete, so that a short one is never seen. Without
/// publish() it is removed, also when SIGINT, SIGTERM or SIGHUP ends the program; a partial one is
/// not removed by signals. At most 512 that are not partial at a time.
class ScratchFile {
 public:
  /// Makes an empty file in `directory` that will be called `name` there.
  [[nodiscard]] static Result<std::unique_ptr<ScratchFile>> create(UniqueFd directory,
                                                                   std::string name);
  /// Opens or makes the file `partial` in `directory`, with its content, and locks it against other
  /// programs that write it. When one does, or it cannot be opened, this is create().
  [[nodiscard]] static Result<std::unique_ptr<ScratchFile>> create_partial(UniqueFd directory,
                                                                           const std::string& name,
                                                                           std::string partial);
  /// Unless a program writes it.
  static void remove_partial(int directory, const std::string& partial);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// Hashes its content; writes go on after that. Returns its size: at most `size_max`, else it is
  /// emptied.
  Result<std::uint64_t> take_up(std::uint64_t size_max, Xxh64Stream& hash);
  /// Keeps the content of a partial file. Returns its name in the directory; empty when it is not
  /// partial.
  std::string keep();
  /// Empties it.
  Status restart();
  /// Renames it to its name, in place of a file that has it now.
  Status publish();

 private:
  ScratchFile(UniqueFd directory, std::string name, std::string scratch_name);

  UniqueFd directory_;
  UniqueFd fd_;
  std::string name_;
  std::string scratch_name_;
  int slot_ = -1;       ///< its slot for the signal handler; -1: none, it is partial
  bool stays_ = false;  ///< published, or kept
};

/// Writes all of `bytes` to `fd`. Blocks.
Status write_all(int fd, std::span<const std::byte> bytes, std::string_view name);

}  // namespace tarn::cli
