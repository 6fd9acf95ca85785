#include "target/drive/file_names.h"

#include <charconv>

namespace tarn::target {
namespace {

template <class T>
std::optional<T> parse_hex(std::string_view text, std::size_t digits) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != digits || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint32_t> directory_in(std::string_view name) {
  return parse_hex<std::uint32_t>(name, 8);
}

std::optional<std::uint64_t> file_id_in(std::string_view name) {
  return parse_hex<std::uint64_t>(name, 16);
}

}  // namespace tarn::target
