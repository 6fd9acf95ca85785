// Record of an object in an index and in a file's attribute, damaged in any way: an error, or a
// record that is written as it was read. The checksum at the end is put right first, or no code
// after its check would ever be reached.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/base/hash.h"
#include "common/io/object_attribute.h"

namespace {

std::string with_checksum(std::string text) {
  const std::uint32_t crc = tarn::crc32c(text);
  for (int shift = 0; shift < 32; shift += 8)
    text.push_back(static_cast<char>(crc >> shift & 0xFFU));
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tarn::io;
  const std::string raw(reinterpret_cast<const char*>(data), size);
  for (const std::string& text : {raw, with_checksum(raw)}) {
    if (const auto record = decode_record(text)) {
      const auto again = decode_record(encode(*record));
      if (!again || !(*again == *record)) std::abort();
      static_cast<void>(record->etag());
      static_cast<void>(record->file.path());
    }
    if (const auto attribute = decode_attribute(text)) {
      const auto again = decode_attribute(encode(*attribute));
      if (!again || !(*again == *attribute)) std::abort();
    }
  }
  return 0;
}
