#include "cli/base/templates.h"

#include <algorithm>

#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

constexpr unsigned kWidthMax = 18;  // 10^18 is below 2^63

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t digits_at(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - from;
}

std::string templates_padded(std::uint64_t number, std::size_t width) {
  return fmt::format("{:0{}}", number, width);
}

struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t step = 1;
  std::size_t width = 1;

  [[nodiscard]] std::uint64_t count() const { return (last - first) / step + 1; }
};

/// A template in a text: the bytes at [begin, end).
struct Found {
  std::size_t begin = 0;
  std::size_t end = 0;
  Range range;
};

Result<std::uint64_t> templates_number_of(std::string_view whole, std::string_view digits) {
  const auto number = parse_u64(digits);
  if (number && digits.size() <= kWidthMax) return *number;
  return fail(Errc::invalid_argument,
              "template '{}': '{}' is not a whole number of at most {} digits; write "
              "{{000000..000999}}",
              whole, digits, kWidthMax);
}

/// Parses the text between the braces of "{a..b}" or "{a..b..step}".
Result<Range> parse_braces(std::string_view whole) {
  const auto inner = whole.substr(1, whole.size() - 2);
  const auto dots = inner.find("..");
  const auto first = inner.substr(0, dots);
  auto last = inner.substr(dots + 2);
  std::string_view step = "1";
  if (const auto more = last.find(".."); more != std::string_view::npos) {
    step = last.substr(more + 2);
    last = last.substr(0, more);
  }
  Range range;
  TRY(range.first, templates_number_of(whole, first));
  TRY(range.last, templates_number_of(whole, last));
  TRY(range.step, templates_number_of(whole, step));
  if (range.first > range.last)
    return fail(Errc::invalid_argument, "template '{}' counts down: write the smaller number first",
                whole);
  if (range.step == 0)
    return fail(Errc::invalid_argument, "template '{}': a step of 0 never ends", whole);
  const auto begins_with_zero = [](std::string_view n) { return n.size() > 1 && n[0] == '0'; };
  const bool pads = begins_with_zero(first) || begins_with_zero(last);
  if (pads) range.width = std::max(first.size(), last.size());
  return range;
}

Result<std::optional<Found>> find_braces(std::string_view text, std::size_t open) {
  const auto close = text.find('}', open);
  const auto inner =
      text.substr(open + 1, close == std::string_view::npos ? close : close - open - 1);
  const bool counts = inner.find("..") != std::string_view::npos;
  if (counts && close == std::string_view::npos)
    return fail(Errc::invalid_argument, "template '{}': the closing brace is missing",
                text.substr(open));
  if (!counts) return std::optional<Found>();
  TRY(const Range range, parse_braces(text.substr(open, close + 1 - open)));
  return Found{open, close + 1, range};
}

Result<Found> take_at(std::string_view text, std::size_t at, std::size_t digits) {
  const auto whole = text.substr(at, digits + 1);
  TRY(const std::uint64_t count, templates_number_of(whole, whole.substr(1)));
  if (count == 0)
    return fail(Errc::invalid_argument,
                "template '{}' stands for no name at all: @001000 stands for 000000 to 000999",
                whole);
  return Found{at, at + whole.size(), {0, count - 1, 1, digits}};
}

Result<std::optional<Found>> find_next(std::string_view text, std::size_t from) {
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '{') {
      TRY(const auto found, find_braces(text, i));
      if (found) return found;
    } else if (text[i] == '@' && digits_at(text, i + 1) > 0) {
      TRY(const Found found, take_at(text, i, digits_at(text, i + 1)));
      return found;
    }
  }
  return std::optional<Found>();
}

/// `heads` with every number of `range` after each of them.
std::vector<std::string> combine(const std::vector<std::string>& heads, const Range& range) {
  std::vector<std::string> out;
  out.reserve(heads.size() * range.count());
  for (const std::string& head : heads)
    for (std::uint64_t i = 0; i < range.count(); ++i)
      out.push_back(head + templates_padded(range.first + i * range.step, range.width));
  return out;
}

}  // namespace

Result<std::vector<std::string>> expand_template(std::string_view text) {
  std::vector<std::string> names{""};
  std::size_t at = 0;
  while (true) {
    TRY(const auto found, find_next(text, at));
    const auto literal = text.substr(at, found ? found->begin - at : std::string_view::npos);
    for (std::string& name : names) name += literal;
    if (!found) return names;
    const std::uint64_t count = found->range.count();
    if (count > kTemplateNamesMax / names.size())
      return fail(Errc::invalid_argument,
                  "template '{}' stands for more than {} names: name them in several calls", text,
                  kTemplateNamesMax);
    names = combine(names, found->range);
    at = found->end;
  }
}

Result<std::string> cluster_template(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  for (bool is_template = false;;) {
    TRY(const auto found, find_next(text, at));
    const auto literal = text.substr(at, found ? found->begin - at : std::string_view::npos);
    out += literal;
    if (!found && is_template) return out;
    if (!found) break;
    is_template = true;
    const Range& range = found->range;
    out += fmt::format("{{{}..{}..{}}}", templates_padded(range.first, range.width),
                       templates_padded(range.last, range.width), range.step);
    at = found->end;
  }
  TRY(const auto numbered, find_numbering(text));
  if (numbered) return out;
  return fail(Errc::invalid_argument,
              "'{}' is no template: write {{000..999}}, @001000 or %06d, or use --prefix or --list",
              text);
}

std::string NumberedName::name(std::uint64_t number) const {
  return before + templates_padded(number, width) + after;
}

std::optional<std::uint64_t> NumberedName::number_in(std::string_view name) const {
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return std::nullopt;
  const auto digits = name.substr(before.size(), name.size() - before.size() - after.size());
  const auto number = parse_u64(digits);
  if (!number || digits != templates_padded(*number, width)) return std::nullopt;
  return number;
}

Result<std::optional<NumberedName>> find_numbering(std::string_view text) {
  std::optional<NumberedName> found;
  for (auto at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    const std::size_t digits = digits_at(text, at + 1);
    const std::size_t end = at + 1 + digits;
    if (end >= text.size() || text[end] != 'd') continue;
    const auto whole = text.substr(at, end + 1 - at);
    if (found)
      return fail(Errc::invalid_argument,
                  "template '{}': only one number can run, '{}' is one more", text, whole);
    const auto width = digits == 0 ? std::uint64_t{1}
                                   : parse_u64(text.substr(at + 1, digits)).value_or(kWidthMax + 1);
    if (width == 0 || width > kWidthMax)
      return fail(Errc::invalid_argument, "template '{}': the width is 1 to {} digits, as in %06d",
                  whole, kWidthMax);
    if (width > 1 && text[at + 1] != '0')
      return fail(Errc::invalid_argument,
                  "template '{}' would pad with blanks: write %0{}d, which pads with zeros", whole,
                  width);
    found = NumberedName{std::string(text.substr(0, at)), static_cast<unsigned>(width),
                         std::string(text.substr(end + 1))};
  }
  return found;
}

}  // namespace tarn::cli
