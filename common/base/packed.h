#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tarn {

/// Writes the small records that lie on drives: bytes, numbers and texts one after the other, and a
/// CRC32C of them all at the end. docs/on-disk-layout.md has the grammar.
class PackedWriter {
 public:
  void byte(std::uint8_t value);
  /// LEB128: seven bits a byte, least significant first.
  void number(std::uint64_t value);
  /// 8 bytes, little-endian.
  void fixed64(std::uint64_t value);
  /// Its length as a number, then its bytes.
  void text(std::string_view value);
  /// All of it, with the checksum. The writer is empty afterwards.
  [[nodiscard]] std::string finish();

 private:
  std::string out_;
};

/// Reads what PackedWriter wrote, from any bytes: after the first mistake everything is zero or
/// empty, and ok() is false.
class PackedReader {
 public:
  /// `bytes` must outlive the reader. A wrong checksum is the first mistake.
  explicit PackedReader(std::string_view bytes);
  [[nodiscard]] bool ok() const { return ok_; }
  /// True if everything was right and nothing is left.
  [[nodiscard]] bool done() const { return ok_ && rest_.empty(); }
  std::uint8_t byte();
  std::uint64_t number();
  std::uint64_t fixed64();
  std::string text();

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tarn
