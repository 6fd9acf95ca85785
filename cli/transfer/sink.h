#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/transfer/partial_name.h"
#include "cli/transfer/scratch_file.h"
#include "common/base/error.h"
#include "common/base/hash.h"
#include "common/base/unique_fd.h"

namespace tarn::cli {

/// Receiver of the bytes of a GET. Blocks.
class Destination {
 public:
  Destination() = default;
  virtual ~Destination() = default;
  /// True if an earlier run left bytes that take_up() may use.
  [[nodiscard]] virtual bool has_leftovers() const { return false; }
  /// Returns the number of the first bytes of this object that are there already. `hash` has then
  /// seen them, and write() goes on after them. Bytes of other contents are removed.
  [[nodiscard]] virtual Result<std::uint64_t> take_up(const Content&, Xxh64Stream&) {
    return std::uint64_t{0};
  }
  /// The bytes that write() will bring are those of this object, from the first on.
  virtual Status begin(const Content&) { return {}; }
  virtual Status write(std::span<const std::byte> bytes) = 0;
  /// Forgets the written bytes. False if they cannot be taken back.
  [[nodiscard]] virtual Result<bool> restart() = 0;
  /// Ends the transfer for now: the written bytes stay for take_up(). Returns their place, or
  /// empty.
  virtual std::string keep() { return {}; }
  /// All is there and right.
  virtual Status publish() = 0;

 protected:
  Destination(Destination&&) = default;
  Destination& operator=(Destination&&) = default;
};

/// Destination of `get`: a file that appears when it is complete, or a stream (standard output, a
/// pipe, a device), whose bytes cannot be taken back. Until it is complete a file is under its
/// partial_name(), where the next run finds it when this one is killed.
class Sink : public Destination {
 public:
  /// "-" is the standard output. `partials`: partial_names_in() the directory of the file.
  [[nodiscard]] static Result<Sink> open(const std::string& path,
                                         const std::vector<std::string>& partials);

  [[nodiscard]] bool has_leftovers() const override { return !leftovers_.empty(); }
  [[nodiscard]] Result<std::uint64_t> take_up(const Content& content, Xxh64Stream& hash) override;
  Status begin(const Content& content) override;
  Status write(std::span<const std::byte> bytes) override;
  [[nodiscard]] Result<bool> restart() override;
  std::string keep() override;
  /// The file gets its name.
  Status publish() override;

 private:
  Status open_directory();
  Status create(const Content& content);

  std::string path_;
  UniqueFd stream_;
  std::string directory_path_;
  std::string name_;
  UniqueFd directory_;
  std::vector<std::string> leftovers_;
  std::unique_ptr<ScratchFile> file_;
  bool written_ = false;
};

}  // namespace tarn::cli
