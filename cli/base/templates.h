#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace tarn::cli {

/// Most names that one template may stand for.
inline constexpr std::uint64_t kTemplateNamesMax = 1'000'000;

/// The names that `text` stands for, in rising order. "{a..b}" and "{a..b..step}" count from a to
/// b, both included, padded to the longer of the two when one of them begins with 0; "@001000"
/// counts from 000000 to 000999. Several templates in one text make every combination, the last one
/// turning fastest; a text without any is itself. Braces without ".." and a "@" before no digit
/// stand for themselves. invalid_argument, naming the template, when it counts down, has no
/// numbers, lacks its closing brace or stands for more than kTemplateNamesMax names.
[[nodiscard]] Result<std::vector<std::string>> expand_template(std::string_view text);

/// The same names in the grammar of the cluster's jobs (common/api/name_template.h), which pads and
/// counts '@' in another way: every template becomes one in braces; a lone "%06d" stays. Names are
/// not made, so there may be more. invalid_argument as expand_template(), and when there is no
/// template in it.
[[nodiscard]] Result<std::string> cluster_template(std::string_view text);

/// A name with one running number in it: "train-%06d.tar".
struct NumberedName {
  std::string before;
  unsigned width = 0;  ///< numbers are padded with zeros to so many digits
  std::string after;

  [[nodiscard]] std::string name(std::uint64_t number) const;
  /// Number with which name() returns this very name; none for other names.
  [[nodiscard]] std::optional<std::uint64_t> number_in(std::string_view name) const;
};

/// Looks for "%06d", "%d" and the like in `text`; "%" before anything else stands for itself.
/// invalid_argument when there are two of them, the width is above 18 or is not padded with 0.
[[nodiscard]] Result<std::optional<NumberedName>> find_numbering(std::string_view text);

}  // namespace tarn::cli
