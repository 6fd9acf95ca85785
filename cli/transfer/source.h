#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace tarn::cli {

/// The body of a PUT: bytes in order, perhaps more than once. Blocks.
class Body {
 public:
  Body() = default;
  virtual ~Body() = default;
  /// None when it shows only at the end.
  [[nodiscard]] virtual std::optional<std::uint64_t> length() const = 0;
  /// Back to the first byte. False when bytes are gone.
  [[nodiscard]] virtual bool rewind() = 0;
  /// Up to into.size() bytes; 0 is the end.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;

 protected:
  Body(Body&&) = default;
  Body& operator=(Body&&) = default;
};

/// XXH64 of all of `body`, which is rewound before and after; internal when it cannot be.
[[nodiscard]] Result<std::uint64_t> hash_of(Body& body);

/// The bytes that `put` sends: of a file, which can be read again, or of a stream, which cannot.
class Source : public Body {
 public:
  /// "-" is the standard input (which may be a file, too). not_found when there is no such file.
  [[nodiscard]] static Result<Source> open(const std::string& path);

  /// Of a file: its size; 0 also of a stream that ended at once: an empty body has to be announced
  /// as one. Other streams have none, and neither have files that report a size of 0 and are not
  /// empty (/proc).
  [[nodiscard]] std::optional<std::uint64_t> length() const override { return length_; }
  /// Back to the first byte. False when bytes of a stream are gone.
  [[nodiscard]] bool rewind() override;
  /// 0 is the end. A file that has become shorter since open() is an error: conflict.
  Result<std::size_t> read(std::span<std::byte> into) override;

 private:
  std::string path_;
  Status look_for_end();

  UniqueFd fd_;
  std::optional<std::byte> first_;  ///< of a stream: looked at, not returned yet
  std::optional<std::uint64_t> length_;
  std::uint64_t start_ = 0;  ///< position of a file when we got it
  std::uint64_t read_ = 0;
};

}  // namespace tarn::cli
