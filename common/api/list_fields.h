#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace tarn::api {

/// Fields of an entry that a client gets, besides its name.
struct ListFields {
  bool size = true;
  bool checksum = false;
  bool version = false;
  bool atime = false;
  bool location = false;
  bool copies = false;
  bool custom = false;
  bool etag = false;           ///< among the custom metadata, as AIStore has it
  bool last_modified = false;  ///< likewise

  bool operator==(const ListFields&) const = default;
};
/// Reads AIStore's "name,size,checksum,..". invalid_argument, naming the word, for an unknown one.
[[nodiscard]] Result<ListFields> parse_list_fields(std::string_view props);
/// Text that parse_list_fields() reads back.
[[nodiscard]] std::string to_text(const ListFields& fields);

/// Format of access times; AIStore's clients name it by a layout of Go's time package.
enum class TimeFormat : std::uint8_t { rfc822, rfc1123, rfc3339, rfc3339_nano, stamp_milli };
/// The layouts of Go's RFC822 (also for ""), RFC1123, RFC3339, RFC3339Nano and StampMilli.
[[nodiscard]] Result<TimeFormat> parse_time_format(std::string_view layout);
[[nodiscard]] std::string_view layout_of(TimeFormat format) noexcept;

/// `wall_ns` in UTC: "21 Nov 26 10:11 UTC" for rfc822.
[[nodiscard]] std::string format_time(std::int64_t wall_ns, TimeFormat format);

/// format_time() for many times that lie close together: remembers the last text.
class TimeTexts {
 public:
  explicit TimeTexts(TimeFormat format) : format_(format) {}
  /// Valid until the next call.
  [[nodiscard]] std::string_view of(std::int64_t wall_ns);

 private:
  TimeFormat format_;
  std::int64_t unit_ = -1;
  std::string text_;
};

}  // namespace tarn::api
