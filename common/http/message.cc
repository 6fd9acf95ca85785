#include "common/http/message.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include <fmt/format.h>

#include "common/base/encoding.h"

namespace tarn::http {
namespace {

using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/// `text` cut at every run of `separator`, without the empty parts.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = text.find(separator);
    if (end != 0) out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

/// Words that the three date formats of RFC 9110 have in common.
struct DateWords {
  std::string_view day, month, year, time;
};

std::optional<int> small_number(std::string_view text, std::size_t digits_max, int max) {
  if (text.size() > digits_max) return std::nullopt;
  const auto value = parse_u64(text);
  if (!value || *value > static_cast<std::uint64_t>(max)) return std::nullopt;
  return static_cast<int>(*value);
}

/// RFC 850 has two digits: a year more than 50 years ahead is in the past century.
int full_year(int two_digits) {
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  const int now = static_cast<int>(year_month_day(today).year());
  const int year = now - now % 100 + two_digits;
  return year > now + 50 ? year - 100 : year;
}

std::optional<std::int64_t> seconds_of(const DateWords& words) {
  const auto month = std::find(kMonths.begin(), kMonths.end(), words.month);
  const auto day = small_number(words.day, 2, 31);
  auto year = small_number(words.year, 4, 9999);
  const auto clock = parts_of(words.time, ':');
  if (month == kMonths.end() || !day || !year || clock.size() != 3 || words.time.size() != 8)
    return std::nullopt;
  if (words.year.size() == 2) year = full_year(*year);
  const auto hours = small_number(clock[0], 2, 23);
  const auto minutes = small_number(clock[1], 2, 59);
  const auto seconds = small_number(clock[2], 2, 60);  // 60: a leap second
  if (!hours || !minutes || !seconds) return std::nullopt;
  const auto month_number = static_cast<unsigned>(month - kMonths.begin()) + 1;
  const year_month_day date{std::chrono::year(*year), std::chrono::month(month_number),
                            std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = sys_days(date).time_since_epoch().count();
  return days * 86'400 + std::int64_t{*hours} * 3'600 + std::int64_t{*minutes} * 60 + *seconds;
}

/// All lines of `name` as one list: RFC 9110 lets a sender break a list into several lines.
std::optional<std::string> joined_field(const Fields& fields, std::string_view name) {
  std::optional<std::string> out;
  for (const Field& field : fields) {
    if (!iequals(field.name, name)) continue;
    if (out)
      *out += ", " + field.value;
    else
      out = field.value;
  }
  return out;
}

enum class Comparison : std::uint8_t { strong, weak };

/// An entity tag taken apart; tags that a client forgot to quote compare like quoted ones.
struct EntityTag {
  bool weak = false;
  std::string_view opaque;
};

/// Takes the next tag from the front of `list`; none at its end.
std::optional<EntityTag> next_tag(std::string_view& list) {
  while (!list.empty() && (list.front() == ',' || list.front() == ' ' || list.front() == '\t'))
    list.remove_prefix(1);
  if (list.empty()) return std::nullopt;
  EntityTag tag;
  if (list.starts_with("W/")) {
    tag.weak = true;
    list.remove_prefix(2);
  }
  const bool quoted = list.starts_with('"');
  if (quoted) list.remove_prefix(1);
  const auto end = std::min(list.find(quoted ? '"' : ','), list.size());
  tag.opaque = quoted ? list.substr(0, end) : trim(list.substr(0, end));
  list.remove_prefix(std::min(end + 1, list.size()));
  return tag;
}

bool same(const EntityTag& a, const EntityTag& b, Comparison comparison) {
  if (comparison == Comparison::strong && (a.weak || b.weak)) return false;
  return a.opaque == b.opaque;
}

/// True if `etag` (empty: there is no object) is in the list of an If-Match or If-None-Match.
bool list_has(std::string_view list, std::string_view etag, Comparison comparison) {
  if (etag.empty()) return false;
  if (trim(list) == "*") return true;
  std::string_view text = etag;
  const auto current = next_tag(text);
  while (const auto tag = next_tag(list))
    if (current && same(*tag, *current, comparison)) return true;
  return false;
}

std::optional<std::int64_t> date_field(const RequestHead& head, std::string_view name) {
  const auto value = head.field(name);
  return value.empty() ? std::nullopt : parse_http_date(value);
}

/// Digits as a number. One that does not fit becomes the largest, which is beyond the end of any
/// object.
std::optional<std::uint64_t> saturated(std::string_view digits) {
  if (digits.empty() ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return parse_u64(digits).value_or(std::numeric_limits<std::uint64_t>::max());
}

/// One "first-last", "first-" or "-suffix" as it stands, before it meets a size.
struct RangeSpec {
  std::optional<std::uint64_t> first;
  std::optional<std::uint64_t> last;  ///< the suffix length when there is no `first`
};

std::optional<RangeSpec> parse_range_spec(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto left = text.substr(0, dash);
  const auto right = text.substr(dash + 1);
  RangeSpec spec{saturated(left), saturated(right)};
  if ((!left.empty() && !spec.first) || (!right.empty() && !spec.last)) return std::nullopt;
  if (!spec.first && !spec.last) return std::nullopt;
  if (spec.first && spec.last && *spec.last < *spec.first) return std::nullopt;
  return spec;
}

std::pair<RangeVerdict, ByteRange> apply_range(const RangeSpec& spec, std::uint64_t size) {
  if (!spec.first) {
    if (*spec.last == 0) return {RangeVerdict::unsatisfiable, {}};
    // The last bytes of nothing are all of it, and no Content-Range can express that.
    if (size == 0) return {RangeVerdict::whole, {0, 0}};
    const auto length = std::min(*spec.last, size);
    return {RangeVerdict::partial, {size - length, length}};
  }
  if (*spec.first >= size) return {RangeVerdict::unsatisfiable, {}};
  const auto last = std::min(spec.last.value_or(size - 1), size - 1);
  return {RangeVerdict::partial, {*spec.first, last - *spec.first + 1}};
}

}  // namespace

std::string_view to_string(Method method) noexcept {
  switch (method) {
    case Method::get: return "GET";
    case Method::head: return "HEAD";
    case Method::put: return "PUT";
    case Method::post: return "POST";
    case Method::patch: return "PATCH";
    case Method::del: return "DELETE";
    case Method::options: return "OPTIONS";
    case Method::other: break;
  }
  return "OTHER";
}

std::string_view find_field(const Fields& fields, std::string_view name) noexcept {
  for (const Field& field : fields)
    if (iequals(field.name, name)) return field.value;
  return {};
}

namespace {
bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == '\x7f';
}
}  // namespace

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  const auto value_at = static_cast<std::ptrdiff_t>(out.size());
  out += value;
  // Hardly ever: a count is quicker than a search that ends at the first.
  if (std::count_if(value.begin(), value.end(), is_control) > 0)
    std::replace_if(out.begin() + value_at, out.end(), is_control, ' ');
  out += "\r\n";
}

bool asks_for_fresh(const RequestHead& head) {
  return to_lower(head.field("Cache-Control")).find("no-cache") != std::string::npos;
}

std::string http_date(std::int64_t seconds) {
  const std::chrono::sys_seconds when{std::chrono::seconds(seconds)};
  const auto midnight = std::chrono::floor<std::chrono::days>(when);
  const year_month_day date(midnight);
  const std::chrono::hh_mm_ss time(when - midnight);
  const auto weekday = std::chrono::weekday(midnight).c_encoding();
  const auto month = static_cast<unsigned>(date.month());
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[weekday],
                     static_cast<unsigned>(date.day()), kMonths[month - 1],
                     static_cast<int>(date.year()), time.hours().count(), time.minutes().count(),
                     time.seconds().count());
}

std::optional<std::int64_t> parse_http_date(std::string_view text) {
  const auto words = parts_of(text, ' ');
  // Sun, 06 Nov 1994 08:49:37 GMT
  if (words.size() == 6 && words[0].ends_with(',') && words[3].size() == 4 && words[5] == "GMT")
    return seconds_of({words[1], words[2], words[3], words[4]});
  // Sun Nov  6 08:49:37 1994 (asctime)
  if (words.size() == 5 && words[4].size() == 4)
    return seconds_of({words[2], words[1], words[4], words[3]});
  // Sunday, 06-Nov-94 08:49:37 GMT (RFC 850)
  if (words.size() == 4 && words[0].ends_with(',') && words[3] == "GMT") {
    const auto date = parts_of(words[1], '-');
    if (date.size() == 3 && date[2].size() == 2)
      return seconds_of({date[0], date[1], date[2], words[2]});
  }
  return std::nullopt;
}

std::pair<RangeVerdict, ByteRange> resolve_range(std::string_view value, std::uint64_t size) {
  const auto equals = value.find('=');
  const ByteRange all{0, size};
  if (value.empty()) return {RangeVerdict::whole, all};
  if (equals == std::string_view::npos) return {RangeVerdict::unsatisfiable, {}};
  // A unit that we do not know is not for us to judge (RFC 9110, 14.2).
  if (!iequals(trim(value.substr(0, equals)), "bytes")) return {RangeVerdict::whole, all};

  std::optional<RangeSpec> only;
  for (const auto part : parts_of(value.substr(equals + 1), ',')) {
    const auto text = trim(part);
    if (text.empty()) continue;
    const auto spec = parse_range_spec(text);
    if (!spec) return {RangeVerdict::unsatisfiable, {}};
    if (only) return {RangeVerdict::multiple, all};
    only = spec;
  }
  if (!only) return {RangeVerdict::unsatisfiable, {}};
  return apply_range(*only, size);
}

bool has_conditions(const RequestHead& head) noexcept {
  return std::any_of(head.fields.begin(), head.fields.end(), [](const Field& field) {
    return iequals(std::string_view(field.name).substr(0, 3), "If-");
  });
}

Condition check_read_conditions(const RequestHead& head, std::string_view etag,
                                std::int64_t modified) {
  // The order is that of RFC 9110, 13.2.2: the tag, where there is one, outweighs the date.
  if (const auto list = joined_field(head.fields, "If-Match")) {
    if (!list_has(*list, etag, Comparison::strong)) return Condition::failed;
  } else if (const auto date = date_field(head, "If-Unmodified-Since")) {
    if (modified > *date) return Condition::failed;
  }
  const bool read = head.method == Method::get || head.method == Method::head;
  if (const auto list = joined_field(head.fields, "If-None-Match")) {
    if (list_has(*list, etag, Comparison::weak))
      return read ? Condition::not_modified : Condition::failed;
  } else if (const auto date = date_field(head, "If-Modified-Since"); date && read) {
    if (modified <= *date) return Condition::not_modified;
  }
  return Condition::proceed;
}

Condition check_write_conditions(const RequestHead& head, std::string_view etag,
                                 std::optional<std::int64_t> modified) {
  if (const auto list = joined_field(head.fields, "If-Match")) {
    if (!list_has(*list, etag, Comparison::strong)) return Condition::failed;
  } else if (const auto date = date_field(head, "If-Unmodified-Since"); date && modified) {
    if (*modified > *date) return Condition::failed;
  }
  if (const auto list = joined_field(head.fields, "If-None-Match"))
    if (list_has(*list, etag, Comparison::weak)) return Condition::failed;
  return Condition::proceed;
}

bool range_applies(const RequestHead& head, std::string_view etag, std::int64_t modified) {
  const auto value = head.field("If-Range");
  if (value.empty()) return true;
  // A date counts when it is exactly ours, as in other servers; a tag must be strong.
  if (const auto date = parse_http_date(value)) return *date == modified;
  return trim(value) != "*" && list_has(value, etag, Comparison::strong);
}

}  // namespace tarn::http
