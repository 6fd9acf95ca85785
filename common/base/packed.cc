#include "common/base/packed.h"

#include <utility>

#include "common/base/hash.h"

namespace tarn {

void PackedWriter::byte(std::uint8_t value) { out_ += static_cast<char>(value); }

void PackedWriter::number(std::uint64_t value) {
  while (value >= 0x80) {
    out_ += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out_ += static_cast<char>(value);
}

void PackedWriter::fixed64(std::uint64_t value) {
  for (int i = 0; i < 8; ++i) out_ += static_cast<char>(value >> (8 * i));
}

void PackedWriter::text(std::string_view value) {
  number(value.size());
  out_ += value;
}

std::string PackedWriter::finish() {
  const std::uint32_t crc = crc32c(out_);
  for (int i = 0; i < 4; ++i) out_ += static_cast<char>(crc >> (8 * i));
  return std::exchange(out_, {});
}

PackedReader::PackedReader(std::string_view bytes) {
  if (bytes.size() < 4) {
    ok_ = false;
    return;
  }
  rest_ = bytes.substr(0, bytes.size() - 4);
  std::uint32_t stored = 0;
  for (std::size_t i = 0; i < 4; ++i)
    stored |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[rest_.size() + i]))
              << (8 * i);
  ok_ = stored == crc32c(rest_);
}

std::uint8_t PackedReader::byte() {
  if (rest_.empty()) ok_ = false;
  if (!ok_) return 0;
  const auto value = static_cast<std::uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  return value;
}

std::uint64_t PackedReader::number() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t next = byte();
    value |= static_cast<std::uint64_t>(next & 0x7F) << shift;
    if (next < 0x80) return value;
  }
  ok_ = false;
  return 0;
}

std::uint64_t PackedReader::fixed64() {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(byte()) << (8 * i);
  return value;
}

std::string PackedReader::text() {
  const std::uint64_t size = number();
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  std::string value(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return value;
}

}  // namespace tarn
