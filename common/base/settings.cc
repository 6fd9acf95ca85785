#include "common/base/settings.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "common/base/check.h"
#include "common/base/encoding.h"

namespace tarn {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::array<Unit, 4> kTimes{{{"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};
constexpr std::array<Unit, 5> kSizes{{{"TiB", 1ULL << 40U},
                                      {"GiB", 1ULL << 30U},
                                      {"MiB", 1ULL << 20U},
                                      {"KiB", 1ULL << 10U},
                                      {"B", 1}}};

std::string_view take_while(std::string_view& rest, bool (*wanted)(char)) {
  const auto end = std::find_if_not(rest.begin(), rest.end(), wanted);
  const auto taken = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
  rest.remove_prefix(taken.size());
  return taken;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_no_digit(char c) { return !is_digit(c); }

/// A number with its unit off the front of `rest`, in multiples of the smallest unit. `units` is
/// cut to those after the one that was found. Fails for garbage and for overflow.
std::optional<std::uint64_t> take_quantity(std::string_view& rest, std::span<const Unit>& units) {
  const auto number = parse_u64(take_while(rest, is_digit));
  const auto name = take_while(rest, is_no_digit);
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& candidate) { return candidate.name == name; });
  if (!number || unit == units.end() || *number > kLargest / unit->factor) return std::nullopt;
  const std::uint64_t value = *number * unit->factor;
  units = units.subspan(static_cast<std::size_t>(unit - units.begin()) + 1);
  return value;
}

std::string in_largest_unit(std::uint64_t value, std::span<const Unit> units,
                            std::string_view zero) {
  for (const Unit& unit : units)
    if (value >= unit.factor && value % unit.factor == 0)
      return std::to_string(value / unit.factor) + std::string(unit.name);
  return std::string(zero);
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

}  // namespace

Result<milliseconds> parse_duration(std::string_view text) {
  std::uint64_t total = 0;
  std::span<const Unit> units(kTimes);
  std::string_view rest = text;
  do {
    const auto part = take_quantity(rest, units);
    if (!part || *part > kLargest - total)
      return fail(Errc::invalid_argument, "'{}' is no duration such as 75s, 500ms or 1m30s", text);
    total += *part;
  } while (!rest.empty());
  return milliseconds(static_cast<std::int64_t>(total));
}

std::string duration_text(milliseconds value) {
  return in_largest_unit(static_cast<std::uint64_t>(value.count()), kTimes, "0s");
}

Result<std::uint64_t> parse_size(std::string_view text) {
  if (const auto plain = parse_u64(text); plain && *plain <= kLargest) return *plain;
  std::span<const Unit> units(kSizes);
  std::string_view rest = text;
  const auto value = take_quantity(rest, units);
  if (!value || !rest.empty())
    return fail(Errc::invalid_argument, "'{}' is no size such as 1024, 64KiB, 256MiB or 1GiB",
                text);
  return *value;
}

std::string size_text(std::uint64_t bytes) { return in_largest_unit(bytes, kSizes, "0B"); }

void Settings::duration(std::string_view key, milliseconds& variable, milliseconds least,
                        milliseconds most, std::string_view meaning) {
  custom(
      key, duration_text(variable), "duration",
      [&variable, least, most](std::string_view value) -> Status {
        TRY(const milliseconds parsed, parse_duration(value));
        if (parsed < least || parsed > most)
          return fail(Errc::invalid_argument, "{} is not between {} and {}", value,
                      duration_text(least), duration_text(most));
        variable = parsed;
        return {};
      },
      meaning);
}

void Settings::size(std::string_view key, std::uint64_t& variable, std::uint64_t least,
                    std::uint64_t most, std::string_view meaning) {
  custom(
      key, size_text(variable), "size",
      [&variable, least, most](std::string_view value) -> Status {
        TRY(const std::uint64_t parsed, parse_size(value));
        if (parsed < least || parsed > most)
          return fail(Errc::invalid_argument, "{} is not between {} and {}", value,
                      size_text(least), size_text(most));
        variable = parsed;
        return {};
      },
      meaning);
}

void Settings::integer(std::string_view key, std::uint64_t& variable, std::uint64_t least,
                       std::uint64_t most, std::string_view unit, std::string_view meaning) {
  custom(
      key, std::to_string(variable), unit,
      [&variable, least, most](std::string_view value) -> Status {
        const auto parsed = parse_u64(value);
        if (!parsed || *parsed < least || *parsed > most)
          return fail(Errc::invalid_argument, "'{}' is no whole number between {} and {}", value,
                      least, most);
        variable = *parsed;
        return {};
      },
      meaning);
}

void Settings::word(std::string_view key, std::string& variable, std::vector<std::string> words,
                    std::string_view meaning) {
  const std::string wanted = join(words);
  custom(
      key, variable, wanted,
      [&variable, words = std::move(words), wanted](std::string_view value) -> Status {
        if (std::find(words.begin(), words.end(), value) == words.end())
          return fail(Errc::invalid_argument, "'{}' is not {}", value, wanted);
        variable = value;
        return {};
      },
      meaning);
}

void Settings::custom(std::string_view key, std::string_view initial, std::string_view unit,
                      Parser parser, std::string_view meaning) {
  TARN_CHECK(
      std::none_of(rows_.begin(), rows_.end(), [&](const Row& row) { return row.key == key; }));
  rows_.push_back(
      {std::string(key), std::string(initial), std::string(unit), std::string(meaning)});
  parsers_.push_back(std::move(parser));
}

void Settings::former_name(std::string_view former, std::string_view key) {
  former_.emplace(former, key);
}

Status Settings::apply_one(std::string_view assignment) {
  const auto equals = assignment.find('=');
  auto key = assignment.substr(0, equals);
  if (const auto former = former_.find(key); former != former_.end()) key = former->second;
  const auto row = std::find_if(rows_.begin(), rows_.end(),
                                [&](const Row& candidate) { return candidate.key == key; });
  if (row == rows_.end()) {
    std::vector<std::string> keys;
    keys.reserve(rows_.size());
    for (const Row& known : rows_) keys.push_back(known.key);
    return fail(Errc::invalid_argument, "{}: unknown setting, want {}", key, join(keys));
  }
  if (equals == std::string_view::npos)
    return fail(Errc::invalid_argument, "{}: no value, want {}=VALUE (default {})", key, key,
                row->initial);
  const auto taken =
      parsers_[static_cast<std::size_t>(row - rows_.begin())](assignment.substr(equals + 1));
  if (!taken)
    return fail(Errc::invalid_argument, "{}: {} (default {})", key, taken.error().message,
                row->initial);
  return {};
}

Status Settings::apply(std::span<const std::string> assignments) {
  std::string problems;
  for (const std::string& assignment : assignments) {
    const auto taken = apply_one(assignment);
    if (taken) continue;
    if (!problems.empty()) problems += '\n';
    problems += taken.error().message;
  }
  if (!problems.empty()) return fail(Error{Errc::invalid_argument, std::move(problems)});
  return {};
}

std::string Settings::table() const {
  std::string out = "| key | default | value | meaning |\n|---|---|---|---|\n";
  for (const Row& row : rows_)
    out += fmt::format("| `{}` | `{}` | {} | {} |\n", row.key, row.initial, row.unit, row.meaning);
  return out;
}

}  // namespace tarn
