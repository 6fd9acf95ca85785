// Chunked bodies: any input in any steps decodes to the same bytes or to an error; never more bytes
// out than in.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/http/request_parser.h"

namespace {

using namespace tarn;

struct Outcome {
  bool failed = false;
  bool done = false;
  std::string body;
};

Outcome decode(std::string_view input, std::size_t step, std::size_t room_bytes) {
  static const http::Limits limits;
  constexpr std::string_view kHead =
      "PUT /b/o HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  http::RequestParser parser(limits);
  std::memcpy(parser.prepare().data(), kHead.data(), kHead.size());
  parser.commit(kHead.size());
  http::RequestHead head;
  const auto begun = parser.read_head(head);
  if (!begun || !*begun) std::abort();
  Outcome outcome;
  std::string into(room_bytes, '\0');
  while (true) {
    const auto got = parser.read_chunked(std::as_writable_bytes(std::span(into)));
    if (!got) {
      outcome.failed = true;
      return outcome;
    }
    outcome.body.append(into, 0, got->bytes);
    if (got->done) {
      outcome.done = true;
      return outcome;
    }
    if (got->bytes > 0) continue;
    if (input.empty()) return outcome;
    const auto room = parser.prepare();
    const std::size_t count = std::min({step, room.size(), input.size()});
    std::memcpy(room.data(), input.data(), count);
    parser.commit(count);
    input.remove_prefix(count);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const Outcome whole = decode(input, size + 1, 64UL * 1024);
  const Outcome stepped = decode(input, 1, 7);
  if (whole.done != stepped.done) std::abort();
  if (whole.done && whole.body != stepped.body) std::abort();
  if (whole.body.size() > size) std::abort();
  return 0;
}
