#include "cli/transfer/partial_name.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "common/base/encoding.h"
#include "common/base/hash.h"

namespace tarn::cli {
namespace {

constexpr std::string_view kSuffix = ".tarn-part";
constexpr std::size_t kFileNameMax = 255;
constexpr std::size_t kChecksumDigits = 16;
constexpr std::size_t kSizeDigitsMax = 20;
// Bytes left for the name itself, beside two dots and a hyphen.
constexpr std::size_t kStemMax =
    kFileNameMax - kSuffix.size() - kChecksumDigits - kSizeDigitsMax - 3;

/// ".FILE.": unlike for every file of a directory.
std::string stem_of(std::string_view file) {
  if (file.size() <= kStemMax) return fmt::format(".{}.", file);
  return fmt::format(".{}~{}.", file.substr(0, kStemMax - kChecksumDigits - 1), hex64(xxh64(file)));
}

}  // namespace

std::string partial_name(std::string_view file, const Content& content) {
  return fmt::format("{}{}-{}{}", stem_of(file), content.checksum, content.size, kSuffix);
}

bool is_partial_of(std::string_view name, std::string_view file) {
  const std::string stem = stem_of(file);
  if (!name.starts_with(stem) || !name.ends_with(kSuffix) ||
      name.size() < stem.size() + kChecksumDigits + 2 + kSuffix.size())
    return false;
  name.remove_prefix(stem.size());
  name.remove_suffix(kSuffix.size());
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return std::all_of(name.begin(), name.begin() + kChecksumDigits, is_hex) &&
         name[kChecksumDigits] == '-' && parse_u64(name.substr(kChecksumDigits + 1)).has_value();
}

std::vector<std::string> partial_names_in(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(directory, failed), end; !failed && at != end;
       at.increment(failed)) {
    std::string name = at->path().filename();
    if (name.starts_with('.') && name.ends_with(kSuffix)) out.push_back(std::move(name));
  }
  return out;
}

}  // namespace tarn::cli
