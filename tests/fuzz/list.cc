// A client's list message (JSON or msgpack) and a target's page (msgpack): whatever comes, an
// answer or an error.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "common/api/list_page.h"
#include "proxy/list/list_codec.h"
#include "proxy/list/list_request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tarn::proxy;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) {
    const auto value = nlohmann::json::parse(text, nullptr, false);
    if (value.is_discarded()) return 0;
    const auto request = parse_list_request(value);
    if (request && (request->limit == 0 || request->limit > ListRequest::kLimitMax)) std::abort();
    return 0;
  }
  const auto page = tarn::api::decode_page(text);
  if (!page) return 0;
  const ListPage shown{"uuid", "", &page->entries};
  static_cast<void>(to_msgpack(shown));
  static_cast<void>(to_json_text(shown));
  const auto again = tarn::api::decode_page(tarn::api::encode_page(page->entries, page->more));
  if (!again || again->entries.size() != page->entries.size() || again->more != page->more)
    std::abort();  // what was understood is passed on whole
  return 0;
}
