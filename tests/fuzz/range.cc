// Range fields, dates and conditions: what is answered lies within the object.
#include <cstdint>
#include <cstdlib>

#include "common/http/message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tarn::http;
  if (size == 0) return 0;
  const std::uint64_t object = data[0] * std::uint64_t{37};
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto [verdict, range] = resolve_range(text, object);
  if (verdict == RangeVerdict::partial &&
      (range.length == 0 || range.offset >= object || range.length > object - range.offset))
    std::abort();
  if (const auto date = parse_http_date(text); date && parse_http_date(http_date(*date)) != date)
    std::abort();
  RequestHead head;
  head.method = Method::get;
  head.fields = {{"If-None-Match", std::string(text)}, {"If-Range", std::string(text)}};
  static_cast<void>(check_read_conditions(head, "\"etag\"", 0));
  static_cast<void>(check_write_conditions(head, "\"etag\"", 1'700'000'000));
  static_cast<void>(range_applies(head, "\"etag\"", 0));
  return 0;
}
