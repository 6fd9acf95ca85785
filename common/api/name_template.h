#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace tarn::api {

/// The names that AIStore's template stands for (docs/api.md): "a-{001..100}",
/// "a-{0..90..10}/{1..3}", "a-@100" (000 to 100), "a-%03d" (every number there is), a prefix, and
/// "" or "*" for all names. Holds the words, never the names; name() makes them one by one.
class NameTemplate {
 public:
  /// Most names that ranges may stand for: AIStore's limit.
  static constexpr std::uint64_t kNamesMax = 10'000'000;

  /// Looks for ranges in braces, then after '@', then for one "%d"; a text without any is a prefix.
  /// invalid_argument, with the fault, for braces that are no range, for two "%d", and for more
  /// than kNamesMax names.
  [[nodiscard]] static Result<NameTemplate> parse(std::string_view text);

  /// Text that every name begins with.
  [[nodiscard]] const std::string& prefix() const {
    return parts_.empty() ? tail_ : parts_[0].before;
  }
  /// True if every name that begins so is meant.
  [[nodiscard]] bool is_prefix() const { return parts_.empty(); }
  /// Number of names, those that ranges without a gap make twice counted twice; none for a prefix
  /// and for "%d".
  [[nodiscard]] std::optional<std::uint64_t> count() const;
  /// The name number `index`, from 0 to count() - 1; the last range turns fastest.
  [[nodiscard]] std::string name(std::uint64_t index) const;
  [[nodiscard]] bool matches(std::string_view name) const;

 private:
  /// A literal and the numbers after it.
  struct Part {
    std::string before;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint64_t step = 1;
    std::size_t width = 1;  ///< digits, padded with zeros

    [[nodiscard]] std::uint64_t count() const { return (last - first) / step + 1; }
    [[nodiscard]] bool has(std::string_view digits) const;
  };
  [[nodiscard]] static Result<NameTemplate> parse_braces(std::string_view text);
  [[nodiscard]] static std::optional<NameTemplate> parse_at(std::string_view text);
  [[nodiscard]] static Result<NameTemplate> parse_number(std::string_view text);
  [[nodiscard]] static Result<Part> parse_range(std::string_view whole, std::string_view inner);
  [[nodiscard]] bool matches_from(std::size_t part, std::string_view rest) const;

  std::vector<Part> parts_;
  std::string tail_;
  bool endless_ = false;  ///< "%d"
};

}  // namespace tarn::api
