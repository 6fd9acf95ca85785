#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tarn::http {

enum class Method : std::uint8_t { get, head, put, post, patch, del, options, other };

[[nodiscard]] std::string_view to_string(Method method) noexcept;

struct Field {
  std::string name;
  std::string value;
};
using Fields = std::vector<Field>;

/// First value of `name` (compared without case), empty when absent.
[[nodiscard]] std::string_view find_field(const Fields& fields, std::string_view name) noexcept;

/// The head of a request, already checked for framing: at most one of content_length and chunked.
struct RequestHead {
  Method method = Method::other;
  std::string method_text;  ///< as sent
  std::string target;       ///< as sent: path and query, still encoded
  unsigned version = 11;    ///< 10 or 11
  Fields fields;
  bool keep_alive = true;
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool expects_continue = false;

  [[nodiscard]] std::string_view field(std::string_view name) const noexcept {
    return find_field(fields, name);
  }
  /// True if a body may follow. A request with neither length nor chunks has none.
  [[nodiscard]] bool has_body() const noexcept { return chunked || content_length.value_or(0) > 0; }
};

/// An answer whose body, if any, is small and in memory.
struct Response {
  unsigned status = 200;
  Fields fields;
  std::string_view lines;  ///< further fields from append_field(); must outlive the sending
  std::string body;

  Response() = default;
  explicit Response(unsigned status_code) : status(status_code) {}
  Response(unsigned status_code, std::string_view content_type, std::string text)
      : status(status_code), body(std::move(text)) {
    set("Content-Type", content_type);
  }
  Response& set(std::string_view name, std::string_view value) {
    fields.push_back({std::string(name), std::string(value)});
    return *this;
  }
};

/// An answer made of text that its caller keeps.
struct ResponseView {
  struct FieldView {
    std::string_view name;
    std::string_view value;
  };
  unsigned status = 200;
  std::span<const FieldView> fields;
  std::string_view body;
};

inline constexpr std::string_view kJson = "application/json; charset=utf-8";
inline constexpr std::string_view kErrorJson = "application/json";  ///< as AIStore's errors
inline constexpr std::string_view kText = "text/plain; charset=utf-8";
inline constexpr std::string_view kBytes = "application/octet-stream";

/// RFC 9110 dates: "Sun, 06 Nov 1994 08:49:37 GMT". Seconds since the epoch.
[[nodiscard]] std::string http_date(std::int64_t seconds);
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view text);

/// A byte range of an object of known size, resolved.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
enum class RangeVerdict : std::uint8_t {
  whole,          ///< no range, or one that RFC 9110 lets a server ignore: send 200
  partial,        ///< one satisfiable range: send 206
  unsatisfiable,  ///< begins after the end, or malformed in a way we refuse: send 416
  multiple,       ///< several ranges: 416 under /v1, whole elsewhere
};
/// Resolves a Range field value ("bytes=0-99", "bytes=-5", "bytes=7-") against `size`.
[[nodiscard]] std::pair<RangeVerdict, ByteRange> resolve_range(std::string_view value,
                                                               std::uint64_t size);

/// "NAME: VALUE" and the line's end. Control characters of the value become spaces: values come
/// from names and messages too, and no byte of theirs may end the line.
void append_field(std::string& out, std::string_view name, std::string_view value);

/// True if a request has any field that check_read_conditions() looks at.
[[nodiscard]] bool has_conditions(const RequestHead& head) noexcept;

/// True if the client refuses stale answers (`Cache-Control: no-cache`, in any case).
[[nodiscard]] bool asks_for_fresh(const RequestHead& head);

/// Conditional requests (RFC 9110, section 13). `etag` is quoted; times are seconds since the
/// epoch.
enum class Condition : std::uint8_t { proceed, not_modified, failed };
/// Check for reads of an existing object. `head` is that of the client's request.
[[nodiscard]] Condition check_read_conditions(const RequestHead& head, std::string_view etag,
                                              std::int64_t modified);
/// Check for writes; if there is no object now, `etag` is empty and `modified` none.
[[nodiscard]] Condition check_write_conditions(const RequestHead& head, std::string_view etag,
                                               std::optional<std::int64_t> modified);
/// True if the Range of `head` may be honoured: If-Range is absent or still matches.
[[nodiscard]] bool range_applies(const RequestHead& head, std::string_view etag,
                                 std::int64_t modified);

}  // namespace tarn::http
