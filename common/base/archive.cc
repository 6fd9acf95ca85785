#include "common/base/archive.h"

#include <algorithm>

#include <fmt/format.h>
#include <isa-l/igzip_lib.h>

#include "common/base/check.h"

namespace tarn {
namespace {

constexpr std::size_t kBlock = 512;

void put(std::string& header, std::size_t offset, std::string_view text) {
  header.replace(offset, text.size(), text);
}

}  // namespace

void append_to_tar(std::string& archive, std::string_view name, std::string_view content,
                   std::int64_t modified_s) {
  TARN_CHECK(name.size() <= 100);
  std::string header(kBlock, '\0');
  put(header, 0, name);
  put(header, 100, "0000644");
  put(header, 108, "0000000");
  put(header, 116, "0000000");
  put(header, 124, fmt::format("{:011o}", content.size()));
  put(header, 136, fmt::format("{:011o}", std::max<std::int64_t>(modified_s, 0)));
  put(header, 148, "        ");  // the checksum counts its own field as spaces
  put(header, 156, "0");
  put(header, 257,
      std::string_view("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(header, 148, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  archive += header;
  archive += content;
  archive.append((kBlock - content.size() % kBlock) % kBlock, '\0');
}

void end_tar(std::string& archive) { archive.append(2 * kBlock, '\0'); }

std::string tar_of(std::string_view name, std::string_view content, std::int64_t modified_s) {
  std::string out;
  append_to_tar(out, name, content, modified_s);
  end_tar(out);
  return out;
}

std::string gzip(std::string_view bytes) {
  isal_zstream stream{};
  isal_deflate_stateless_init(&stream);
  // Incompressible bytes grow by a few for each 64 KiB.
  std::string out(bytes.size() + bytes.size() / 1000 + 1024, '\0');
  std::string in(bytes);
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  stream.flush = NO_FLUSH;
  stream.next_in = reinterpret_cast<std::uint8_t*>(in.data());
  stream.avail_in = static_cast<std::uint32_t>(in.size());
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = static_cast<std::uint32_t>(out.size());
  TARN_CHECK(isal_deflate_stateless(&stream) == COMP_OK);
  out.resize(stream.total_out);
  return out;
}

}  // namespace tarn
