#pragma once

#include <cstdint>
#include <string>

namespace tarn::proxy {

/// One line of a listing, as a target sends it: an object, or a virtual directory, whose name ends
/// in '/' (which no object's does).
struct ListEntry {
  std::string name;
  std::uint64_t size = 0;
  std::string checksum;  ///< hex
  std::uint64_t version = 0;
  std::int64_t atime_ns = 0;  ///< wall clock
  std::string location;       ///< "t[id]:mountpath"

  [[nodiscard]] bool is_directory() const { return name.ends_with('/'); }
  bool operator==(const ListEntry&) const = default;
};

}  // namespace tarn::proxy
