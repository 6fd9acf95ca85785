// A client's list message (JSON or msgpack) and a target's page (msgpack): whatever comes, an
// answer or an error.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "proxy/list_codec.h"
#include "proxy/list_request.h"

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
  const auto page = decode_target_page(text);
  if (!page) return 0;
  const ListRequest request;
  const ListPage shown{"uuid", "", &page->entries};
  static_cast<void>(to_msgpack(shown, request));
  const auto again = nlohmann::json::parse(to_json_text(shown, request), nullptr, false);
  if (again.is_discarded()) std::abort();  // JSON that no client could read
  return 0;
}
