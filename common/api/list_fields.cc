#include "common/api/list_fields.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/chrono.h>

#include "common/base/encoding.h"

namespace tarn::api {
namespace {

struct Field {
  std::string_view word;
  bool ListFields::* field;
};
constexpr std::array kFields{Field{"size", &ListFields::size},
                             Field{"checksum", &ListFields::checksum},
                             Field{"version", &ListFields::version},
                             Field{"atime", &ListFields::atime},
                             Field{"location", &ListFields::location},
                             Field{"copies", &ListFields::copies},
                             Field{"custom", &ListFields::custom},
                             Field{"etag", &ListFields::etag},
                             Field{"last-modified", &ListFields::last_modified}};
/// Words that are always true of our entries, or never: "cached" and "status" are in the flags, and
/// nothing is erasure-coded or in chunks yet.
constexpr std::array<std::string_view, 5> kSilent{"name", "cached", "status", "ec", "chunked"};

struct Layout {
  TimeFormat format;
  std::string_view text;  ///< of Go's time package
};
constexpr std::array kLayouts{
    Layout{TimeFormat::rfc822, "02 Jan 06 15:04 MST"},
    Layout{TimeFormat::rfc1123, "Mon, 02 Jan 2006 15:04:05 MST"},
    Layout{TimeFormat::rfc3339, "2006-01-02T15:04:05Z07:00"},
    Layout{TimeFormat::rfc3339_nano, "2006-01-02T15:04:05.999999999Z07:00"},
    Layout{TimeFormat::stamp_milli, "Jan _2 15:04:05.000"}};

/// Nanoseconds within which all times have one text.
std::int64_t unit_of(TimeFormat format) {
  switch (format) {
    case TimeFormat::rfc822: return 60'000'000'000;
    case TimeFormat::rfc3339_nano: return 1;
    case TimeFormat::stamp_milli: return 1'000'000;
    default: return 1'000'000'000;
  }
}

}  // namespace

Result<ListFields> parse_list_fields(std::string_view props) {
  ListFields out{.size = false};
  while (!props.empty()) {
    const auto end = std::min(props.find(','), props.size());
    const auto word = trim(props.substr(0, end));
    props.remove_prefix(std::min(end + 1, props.size()));
    const auto field = std::find_if(kFields.begin(), kFields.end(),
                                    [&](const Field& each) { return each.word == word; });
    if (field != kFields.end()) {
      out.*field->field = true;
    } else if (!word.empty() && std::find(kSilent.begin(), kSilent.end(), word) == kSilent.end()) {
      return fail(Errc::invalid_argument, "list: unknown name '{}' in props", word);
    }
  }
  return out;
}

std::string to_text(const ListFields& fields) {
  std::string out = "name";
  for (const Field& each : kFields)
    if (fields.*each.field) out += "," + std::string(each.word);
  return out;
}

Result<TimeFormat> parse_time_format(std::string_view layout) {
  if (layout.empty()) return TimeFormat::rfc822;
  const auto found = std::find_if(kLayouts.begin(), kLayouts.end(),
                                  [&](const Layout& each) { return each.text == layout; });
  if (found != kLayouts.end()) return found->format;
  if (layout == "RFC3339") return TimeFormat::rfc3339;
  return fail(Errc::invalid_argument,
              "list: time_format '{}' is none of Go's RFC822, RFC1123, RFC3339, RFC3339Nano or "
              "StampMilli",
              layout);
}

std::string_view layout_of(TimeFormat format) noexcept {
  for (const Layout& each : kLayouts)
    if (each.format == format) return each.text;
  return "";
}

std::string format_time(std::int64_t wall_ns, TimeFormat format) {
  const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  const auto nanoseconds = wall_ns % 1'000'000'000;
  const std::tm utc = fmt::gmtime(seconds);
  switch (format) {
    case TimeFormat::rfc822: return fmt::format("{:%d %b %y %H:%M} UTC", utc);
    case TimeFormat::rfc1123: return fmt::format("{:%a, %d %b %Y %H:%M:%S} UTC", utc);
    case TimeFormat::rfc3339: return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", utc);
    case TimeFormat::rfc3339_nano:
      return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", utc, nanoseconds);
    case TimeFormat::stamp_milli:
      return fmt::format("{:%b %e %H:%M:%S}.{:03}", utc, nanoseconds / 1'000'000);
  }
  return "";
}

std::string_view TimeTexts::of(std::int64_t wall_ns) {
  const std::int64_t unit = wall_ns / unit_of(format_);
  if (unit != unit_) {
    unit_ = unit;
    text_ = format_time(wall_ns, format_);
  }
  return text_;
}

}  // namespace tarn::api
