#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "cli/scratch_file.h"
#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace tarn::cli {

/// What takes the bytes of a GET. Blocks.
class Destination {
 public:
  Destination() = default;
  virtual ~Destination() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
  /// Forgets what was written. False when it cannot be taken back.
  [[nodiscard]] virtual Result<bool> restart() = 0;
  /// All is there and right.
  virtual Status publish() = 0;

 protected:
  Destination(Destination&&) = default;
  Destination& operator=(Destination&&) = default;
};

/// Where `get` writes: a file that appears when it is complete, or a stream (standard output, a
/// pipe, a device), whose bytes cannot be taken back.
class Sink : public Destination {
 public:
  /// "-" is the standard output.
  [[nodiscard]] static Result<Sink> open(const std::string& path);

  Status write(std::span<const std::byte> bytes) override;
  [[nodiscard]] Result<bool> restart() override;
  /// The file gets its name.
  Status publish() override;

 private:
  std::string path_;
  UniqueFd stream_;
  std::unique_ptr<ScratchFile> file_;
  bool written_ = false;
};

}  // namespace tarn::cli
