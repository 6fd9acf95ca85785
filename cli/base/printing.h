#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/encoding.h"

namespace tarn::cli {

/// "4.2GiB", "17KiB", "512B": at most one digit after the point.
[[nodiscard]] std::string readable_size(std::uint64_t bytes);

/// A number of seconds as "1h5m"; "-" if `seconds` is no number.
[[nodiscard]] std::string readable_seconds(const nlohmann::ordered_json& seconds);

/// `value` on stdout, indented, with a newline. Bytes that are no UTF-8 are replaced.
void print_json(const nlohmann::ordered_json& value);

/// Columns of text on stdout, as wide as their widest cell. Control characters are shown escaped:
/// names from a cluster cannot write on the terminal.
class Table {
 public:
  explicit Table(std::vector<std::string> titles) : rows_{std::move(titles)} {}
  void add(std::vector<std::string> cells);
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tarn::cli
