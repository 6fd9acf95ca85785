#include "cli/base/printing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/base/settings.h"

namespace tarn::cli {

std::string readable_size(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  if (unit == 0 || value >= 99.95) return fmt::format("{:.0f}{}", value, kUnits[unit]);
  return fmt::format("{:.1f}{}", value, kUnits[unit]);
}

std::string readable_seconds(const nlohmann::ordered_json& seconds) {
  if (!seconds.is_number()) return "-";
  return duration_text(std::chrono::seconds(std::llround(seconds.get<double>())));
}

void print_json(const nlohmann::ordered_json& value) {
  using Handler = nlohmann::ordered_json::error_handler_t;
  fmt::print("{}\n", value.dump(2, ' ', false, Handler::replace));
}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

void Table::print() const {
  std::vector<std::size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

}  // namespace tarn::cli
