#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace tarn::api {

// AIStore's bits of an entry's flags.
inline constexpr unsigned kEntryPresent = 64;     ///< in the cluster: every entry of ours
inline constexpr unsigned kEntryDirectory = 256;  ///< a virtual directory: its name ends in '/'

/// One line of a list, as AIStore's clients get it (docs/api.md). Empty and zero
/// fields are left out on the wire, but for the name.
struct ListEntry {
  std::string_view name;
  std::string_view checksum;  ///< hex
  std::string_view atime;     ///< in the format that the client asked for
  std::string_view version;
  std::string_view location;  ///< "t[id]:mp[path, disk, file system]"
  std::string_view custom;    ///< "[key:value other:value]"
  std::uint64_t size = 0;
  unsigned copies = 0;
  unsigned flags = 0;
};
/// Appends `entry` as a msgpack map with one-letter keys, the name first.
void pack(const ListEntry& entry, std::string& out);
/// The fields of a packed entry; views of `bytes`. corrupt when it is none.
[[nodiscard]] Result<ListEntry> unpack_entry(std::string_view bytes);
/// Appends `text`, which is UTF-8, as a JSON string.
void append_quoted(std::string_view text, std::string& out);
/// Appends it as AIStore's JSON: whole words as keys, the size as a string.
void append_json(const ListEntry& entry, std::string& out);

/// A packed entry within a page.
struct PackedEntry {
  std::string_view name;
  std::string_view bytes;  ///< all of it, the name included
  [[nodiscard]] bool is_directory() const { return name.ends_with('/'); }
};

/// Entries that lie packed, one after the other, in bytes that the page keeps. On its way from a
/// drive to the client an entry is packed once and then only copied. Moving a page leaves the views
/// valid.
struct PackedPage {
  std::vector<PackedEntry> entries;
  bool more = false;
  std::unique_ptr<std::string> bytes;
};

/// Collects entries of one page. The entries point into `bytes()` when take() has been called.
class PagePacker {
 public:
  void add(const ListEntry& entry);
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] PackedPage take(bool more);

 private:
  struct End {
    std::size_t name_begin;
    std::size_t name_size;
    std::size_t end;
  };
  std::unique_ptr<std::string> bytes_ = std::make_unique<std::string>();
  std::vector<End> ends_;
};

/// A page as nodes send it to each other: the msgpack map {"entries": [..], "more": bool}.
[[nodiscard]] std::string encode_page(const std::vector<PackedEntry>& entries, bool more);
/// Takes `bytes` over and points into them. Unknown keys are skipped. corrupt when it is malformed,
/// "more" is missing, or an entry has no name.
[[nodiscard]] Result<PackedPage> decode_page(std::string bytes);

}  // namespace tarn::api
