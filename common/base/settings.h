#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace tarn {

/// "75s", "500ms", "1m30s", "2h", "0s": whole numbers with units h, m, s, ms in falling order, each
/// at most once. invalid_argument for anything else, also for a number without a unit.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view text);
/// One number in the largest unit that divides it, as parse_duration() reads it: "75s", "1m", "0s".
[[nodiscard]] std::string duration_text(std::chrono::milliseconds value);

/// "1024", "64KiB", "256MiB", "1GiB", "2TiB", and with a single B: "512B". invalid_argument for
/// other texts, also for KB and MB, which people read in two ways.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);
/// One number in the largest unit that divides it, as parse_size() reads it: "256MiB", "1000B".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

/// The settings of a program: the variables that `--set key=value` may change. Each key is bound to
/// a variable whose value at that moment is the default. The variables must outlive the last
/// apply(). Bind everything, apply() once at start-up, then only read. Not thread-safe.
class Settings {
 public:
  /// One row of the table that `--help-settings` prints and docs/configuration.md holds.
  struct Row {
    std::string key;
    std::string initial;  ///< the default, as it would be written after `key=`
    std::string unit;     ///< form of a value: "duration", "size", "307 or 302", ...
    std::string meaning;
  };
  /// Takes the text of a value over, or returns its fault and the wanted form.
  using Parser = std::function<Status(std::string_view value)>;

  /// Between `least` and `most`, both included.
  void duration(std::string_view key, std::chrono::milliseconds& variable,
                std::chrono::milliseconds least, std::chrono::milliseconds most,
                std::string_view meaning);
  void size(std::string_view key, std::uint64_t& variable, std::uint64_t least, std::uint64_t most,
            std::string_view meaning);
  void integer(std::string_view key, std::uint64_t& variable, std::uint64_t least,
               std::uint64_t most, std::string_view unit, std::string_view meaning);
  /// One of `words`.
  void word(std::string_view key, std::string& variable, std::vector<std::string> words,
            std::string_view meaning);
  /// For values of another kind. `parser` writes its own variable.
  void custom(std::string_view key, std::string_view initial, std::string_view unit, Parser parser,
              std::string_view meaning);

  /// Accepts the name that `key`, which is bound, had before, too. No table shows it.
  void former_name(std::string_view former, std::string_view key);

  /// Takes "key=value" texts in order; of a key that stands twice the last counts. invalid_argument
  /// with every problem on a line of its own, each naming its key. The variables may then hold some
  /// of the values: the program must not go on.
  [[nodiscard]] Status apply(std::span<const std::string> assignments);

  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  /// A Markdown table of all rows, in the order they were bound.
  [[nodiscard]] std::string table() const;

 private:
  [[nodiscard]] Status apply_one(std::string_view assignment);

  std::vector<Row> rows_;
  std::vector<Parser> parsers_;                             ///< beside rows_
  std::map<std::string, std::string, std::less<>> former_;  ///< former name -> key
};

}  // namespace tarn
