#include "common/api/msgpack.h"

namespace tarn::api {

void MsgpackWriter::big_endian(std::uint64_t value, unsigned bytes) {
  for (unsigned shift = bytes * 8; shift > 0;) {
    shift -= 8;
    out_ += static_cast<char>((value >> shift) & 0xFF);
  }
}

void MsgpackWriter::number(std::uint64_t value) {
  if (value < 0x80) {
    out_ += static_cast<char>(value);
  } else if (value <= 0xFF) {
    tagged(0xCC, value, 1);
  } else if (value <= 0xFFFF) {
    tagged(0xCD, value, 2);
  } else if (value <= 0xFFFFFFFF) {
    tagged(0xCE, value, 4);
  } else {
    tagged(0xCF, value, 8);
  }
}

std::uint64_t MsgpackReader::big_endian(unsigned bytes) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value = value << 8U | byte();
  return ok_ ? value : 0;
}

std::string_view MsgpackReader::take(std::size_t size) {
  if (size > rest_.size()) {
    fail();
    return {};
  }
  const auto out = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return out;
}

std::size_t MsgpackReader::map() {
  const unsigned tag = byte();
  if ((tag & 0xF0) == 0x80) return tag & 0x0F;
  if (tag == 0xDE) return big_endian(2);
  if (tag == 0xDF) return big_endian(4);
  return fail();
}

std::size_t MsgpackReader::array() {
  const unsigned tag = byte();
  if ((tag & 0xF0) == 0x90) return tag & 0x0F;
  if (tag == 0xDC) return big_endian(2);
  if (tag == 0xDD) return big_endian(4);
  return fail();
}

std::string_view MsgpackReader::text() {
  const unsigned tag = byte();
  if ((tag & 0xE0) == 0xA0) return take(tag & 0x1F);
  if (tag == 0xD9) return take(big_endian(1));
  if (tag == 0xDA) return take(big_endian(2));
  if (tag == 0xDB) return take(big_endian(4));
  fail();
  return {};
}

std::uint64_t MsgpackReader::number() {
  const unsigned tag = byte();
  if (tag < 0x80) return tag;
  if (tag >= 0xCC && tag <= 0xCF) return big_endian(1U << (tag - 0xCC));
  if (tag >= 0xD0 && tag <= 0xD3) {
    const bool is_negative =
        !rest_.empty() && (static_cast<unsigned char>(rest_.front()) & 0x80U) != 0;
    if (!is_negative) return big_endian(1U << (tag - 0xD0));
  }
  return fail();
}

bool MsgpackReader::boolean() {
  const unsigned tag = byte();
  if (tag != 0xC2 && tag != 0xC3) fail();
  return tag == 0xC3;
}

void MsgpackReader::skip(int levels) {
  if (levels == 0) fail();
  if (!ok_) return;
  const unsigned tag = rest_.empty() ? fail() : static_cast<unsigned char>(rest_.front());
  const auto skip_values = [&](std::size_t count) {
    for (std::size_t i = 0; i < count && ok_; ++i) skip(levels - 1);
  };
  if ((tag & 0xF0) == 0x80 || tag == 0xDE || tag == 0xDF) return skip_values(2 * map());
  if ((tag & 0xF0) == 0x90 || tag == 0xDC || tag == 0xDD) return skip_values(array());
  if ((tag & 0xE0) == 0xA0 || (tag >= 0xD9 && tag <= 0xDB)) {
    static_cast<void>(text());
    return;
  }
  byte();
  if (tag < 0x80 || tag >= 0xE0 || tag == 0xC0 || tag == 0xC2 || tag == 0xC3) return;
  if (tag >= 0xC4 && tag <= 0xC6) {  // bytes
    take(big_endian(1U << (tag - 0xC4)));
  } else if (tag >= 0xC7 && tag <= 0xC9) {  // an extension: its type is one byte more
    take(big_endian(1U << (tag - 0xC7)) + 1);
  } else if (tag == 0xCA || tag == 0xCB) {  // floating point
    take(tag == 0xCA ? 4 : 8);
  } else if (tag >= 0xCC && tag <= 0xD3) {
    take(1U << ((tag - 0xCC) & 3));
  } else if (tag >= 0xD4 && tag <= 0xD8) {
    take((1U << (tag - 0xD4)) + 1);
  } else {
    fail();  // 0xC1 is never used
  }
}

}  // namespace tarn::api
