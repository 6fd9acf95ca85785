// Request heads: whatever arrives, in whatever steps, the parser says the same, and what it accepts
// has exactly one framing.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "common/api/request_path.h"
#include "common/http/request_parser.h"

namespace {

using namespace tarn;

struct Verdict {
  bool complete = false;
  std::optional<Errc> error;
  http::RequestHead head;
  std::size_t left = 0;
};

Verdict parse(std::string_view input, std::size_t step) {
  static const http::Limits limits;
  http::RequestParser parser(limits);
  Verdict verdict;
  while (true) {
    const auto done = parser.read_head(verdict.head);
    if (!done) {
      verdict.error = done.error().code;
      return verdict;
    }
    if (*done || input.empty()) {
      verdict.complete = *done;
      verdict.left = parser.buffered() + input.size();
      return verdict;
    }
    const auto room = parser.prepare();
    const std::size_t count = std::min({step, room.size(), input.size()});
    std::memcpy(room.data(), input.data(), count);
    parser.commit(count);
    input.remove_prefix(count);
  }
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const Verdict whole = parse(input, size + 1);
  const Verdict stepped = parse(input, 1);
  require(whole.complete == stepped.complete);
  if (whole.complete) {
    require(whole.left == stepped.left);
    require(whole.head.target == stepped.head.target);
    require(!(whole.head.chunked && whole.head.content_length));
    require(whole.head.fields.size() <= http::Limits().fields_max);
    static_cast<void>(api::parse_target(whole.head.target));
  }
  return 0;
}
