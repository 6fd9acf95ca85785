#include "common/api/name_template.h"

#include <algorithm>

#include "common/base/encoding.h"

namespace tarn::api {
namespace {

constexpr std::size_t kDigitsMax = 18;  // 10^18 is below 2^63
constexpr std::uint64_t kNumberMax = 999'999'999'999'999'999;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t digits_in(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

std::string padded(std::uint64_t number, std::size_t width) {
  return fmt::format("{:0{}}", number, width);
}

std::optional<std::uint64_t> number_of(std::string_view digits) {
  if (digits.empty() || digits.size() > kDigitsMax || digits_in(digits) != digits.size())
    return std::nullopt;
  return parse_u64(digits);
}

}  // namespace

bool NameTemplate::Part::has(std::string_view digits) const {
  const auto number = number_of(digits);
  return number && *number >= first && *number <= last && (*number - first) % step == 0 &&
         digits == padded(*number, width);
}

/// "001..100" or "0..90..10", which stood in the braces of `whole`.
Result<NameTemplate::Part> NameTemplate::parse_range(std::string_view whole,
                                                     std::string_view inner) {
  std::vector<std::string_view> words;
  for (auto rest = inner;;) {
    const auto dots = rest.find("..");
    words.push_back(rest.substr(0, dots));
    if (dots == std::string_view::npos) break;
    rest.remove_prefix(dots + 2);
  }
  std::vector<std::uint64_t> numbers;
  for (const auto word : words)
    if (const auto number = number_of(word)) numbers.push_back(*number);
  if (numbers.size() != words.size() || numbers.size() < 2 || numbers.size() > 3)
    return fail(Errc::invalid_argument,
                "template '{}': '{{{}}}' is no range such as {{0001..0100}} or {{0..90..10}} of "
                "numbers of at most {} digits",
                whole, inner, kDigitsMax);
  Part part;
  part.first = numbers[0];
  part.last = numbers[1];
  part.step = numbers.size() == 3 ? numbers[2] : 1;
  part.width = std::min(words[0].size(), words[1].size());
  if (part.first > part.last)
    return fail(Errc::invalid_argument, "template '{}': '{{{}}}' counts down", whole, inner);
  if (part.step == 0)
    return fail(Errc::invalid_argument, "template '{}': '{{{}}}' has a step of 0", whole, inner);
  return part;
}

Result<NameTemplate> NameTemplate::parse_braces(std::string_view text) {
  NameTemplate out;
  std::string_view rest = text;
  for (auto at = rest.find_first_of("{}"); at != std::string_view::npos;
       at = rest.find_first_of("{}")) {
    const auto end = rest.find_first_of("{}", at + 1);
    if (rest[at] != '{' || end == std::string_view::npos || rest[end] != '}')
      return fail(
          Errc::invalid_argument,
          "template '{}': braces stand for ranges such as {{0001..0100}}; name objects that "
          "have braces one by one, in \"objnames\"",
          text);
    TRY(Part part, parse_range(text, rest.substr(at + 1, end - at - 1)));
    part.before = rest.substr(0, at);
    out.parts_.push_back(std::move(part));
    rest.remove_prefix(end + 1);
  }
  out.tail_ = rest;
  return out;
}

/// The template; none if no number follows an '@': such a text is no template of this form.
std::optional<NameTemplate> NameTemplate::parse_at(std::string_view text) {
  NameTemplate out;
  std::string_view rest = text;
  for (auto at = rest.find('@'); at != std::string_view::npos; at = rest.find('@')) {
    const std::size_t digits = digits_in(rest.substr(at + 1));
    const auto last = number_of(rest.substr(at + 1, digits));
    if (!last) return std::nullopt;
    Part part;
    part.before = rest.substr(0, at);
    part.last = *last;
    part.width = digits;
    out.parts_.push_back(std::move(part));
    rest.remove_prefix(at + 1 + digits);
  }
  if (out.parts_.empty()) return std::nullopt;
  out.tail_ = rest;
  return out;
}

/// "a-%06d", or a prefix when there is no number.
Result<NameTemplate> NameTemplate::parse_number(std::string_view text) {
  NameTemplate out;
  out.tail_ = text;
  for (auto at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    const std::size_t digits = digits_in(text.substr(at + 1));
    const std::size_t end = at + 1 + digits;
    if (end >= text.size() || text[end] != 'd') continue;
    const auto width =
        digits == 0 ? std::optional<std::uint64_t>(1) : number_of(text.substr(at + 1, digits));
    if (!out.parts_.empty() || !width || *width == 0 || *width > kDigitsMax)
      return fail(Errc::invalid_argument,
                  "template '{}': it may have one number such as %06d, of 1 to {} digits", text,
                  kDigitsMax);
    Part part;
    part.before = text.substr(0, at);
    part.last = kNumberMax;
    part.width = *width;
    out.parts_.push_back(std::move(part));
    out.tail_ = text.substr(end + 1);
    out.endless_ = true;
  }
  return out;
}

Result<NameTemplate> NameTemplate::parse(std::string_view text) {
  NameTemplate out;
  if (text.empty() || text == "*") return out;
  if (text.find_first_of("{}") != std::string_view::npos) {
    TRY(out, parse_braces(text));
  } else if (auto counted = parse_at(text)) {
    out = std::move(*counted);
  } else {
    TRY(out, parse_number(text));
    return out;
  }
  std::uint64_t names = 1;
  for (const Part& part : out.parts_) {
    if (part.count() > kNamesMax / names)
      return fail(Errc::invalid_argument,
                  "template '{}' stands for more than {} names: name them in several calls, or by "
                  "their prefix",
                  text, kNamesMax);
    names *= part.count();
  }
  return out;
}

std::optional<std::uint64_t> NameTemplate::count() const {
  if (is_prefix() || endless_) return std::nullopt;
  std::uint64_t out = 1;
  for (const Part& part : parts_) out *= part.count();
  return out;
}

std::string NameTemplate::name(std::uint64_t index) const {
  std::vector<std::uint64_t> numbers(parts_.size());
  for (std::size_t i = parts_.size(); i-- > 0; index /= parts_[i].count())
    numbers[i] = parts_[i].first + index % parts_[i].count() * parts_[i].step;
  std::string out;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    out.append(parts_[i].before).append(padded(numbers[i], parts_[i].width));
  return out + tail_;
}

bool NameTemplate::matches(std::string_view name) const {
  return is_prefix() ? name.starts_with(tail_) : matches_from(0, name);
}

/// Ranges without a gap may share their digits in several ways; there are few of them, since they
/// stand for kNamesMax names at most.
bool NameTemplate::matches_from(std::size_t part, std::string_view rest) const {
  if (part == parts_.size()) return rest == tail_;
  const Part& here = parts_[part];
  if (!rest.starts_with(here.before)) return false;
  rest.remove_prefix(here.before.size());
  const std::size_t longest = std::min(padded(here.last, here.width).size(), rest.size());
  for (std::size_t digits = padded(here.first, here.width).size(); digits <= longest; ++digits) {
    if (!is_digit(rest[digits - 1])) break;
    if (here.has(rest.substr(0, digits)) && matches_from(part + 1, rest.substr(digits)))
      return true;
  }
  return false;
}

}  // namespace tarn::api
