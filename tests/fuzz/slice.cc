// The end of a slice's file, a slice's identity and a block, damaged in any way: an error, or what
// reads the same when it is written again. Checksums are put right first, or no code after their
// checks would ever be reached.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/base/hash.h"
#include "ec/slice_format.h"

namespace {

using namespace tarn;

std::string little_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 0; shift < 32; shift += 8) text.push_back(static_cast<char>(value >> shift));
  return text;
}

/// End of a slice's file, around `fields`.
std::string with_end(std::string fields) {
  fields += little_endian(crc32c(fields));
  return fields + little_endian(static_cast<std::uint32_t>(fields.size())) + "TARNSLC\n";
}

void read_label_of(const std::string& tail) {
  for (const std::uint64_t size : {std::uint64_t{tail.size()}, UINT64_MAX}) {
    const auto label = ec::read_label(std::as_bytes(std::span(tail)), size);
    if (!label) continue;  // else the object is empty: the label is all of the file
    const auto bytes = encode(*label);
    if (!bytes) std::abort();
    const auto again = ec::read_label(std::as_bytes(std::span(*bytes)), bytes->size());
    if (!again || !(*again == *label)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string raw(reinterpret_cast<const char*>(data), size);
  read_label_of(raw);
  read_label_of(with_end(raw));
  for (const std::string& text : {raw, raw + little_endian(crc32c(raw))}) {
    const ec::SliceId slice{ec::SetId(7), {4, 2}, 1};
    static_cast<void>(ec::check_block(std::as_bytes(std::span(text)), slice, 3));
  }
  return 0;
}
