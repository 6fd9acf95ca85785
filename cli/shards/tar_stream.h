#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace tarn::cli {

inline constexpr std::size_t kTarBlock = 512;

/// One member of a tar stream: its headers, and the number of data bytes after them.
struct TarMember {
  std::string name;        ///< the one in the last of its headers: pax before GNU before ustar
  std::string link;        ///< of links: their targets
  char type = '0';         ///< of the main header, as in ustar
  std::string head;        ///< raw: extended headers, the main one, maps of sparse files
  std::uint64_t data = 0;  ///< bytes of data in the stream, filled up to whole blocks
  [[nodiscard]] bool is_directory() const { return type == '5'; }
  [[nodiscard]] bool is_hard_link() const { return type == '1'; }
};

/// Takes a tar stream apart, member by member, and returns every byte of it. Understands ustar, GNU
/// (long names, numbers in base 256, sparse files) and pax. Source of the formats: POSIX.1-2017,
/// pax, "ustar Interchange Format" and "pax Interchange Format"; GNU tar manual, "Tar Internals".
/// Which types have data is decided as Python's tarfile does, through which WebDataset reads.
class TarReader {
 public:
  /// Up to `into.size()` bytes of the stream; 0 is its end.
  using Read = std::function<Result<std::size_t>(std::span<std::byte> into)>;
  explicit TarReader(Read read) : read_(std::move(read)) {}

  /// The next member, none at the end. The data of the one before must have been read. corrupt for
  /// what is no tar, is cut short or ends without its end marker; unsupported for multi-volume
  /// archives and for global headers that rename or resize members. Archives written one after the
  /// other are one stream.
  Result<std::optional<TarMember>> next();
  /// Up to `into.size()` bytes of the present member's data, padding included; 0 is its end.
  Result<std::size_t> read_data(std::span<std::byte> into);
  /// All global pax headers so far, raw: they hold for every member after them.
  [[nodiscard]] const std::string& globals() const { return globals_; }

 private:
  using Block = std::array<char, kTarBlock>;
  struct Extended;

  Result<bool> read_block(Block& block);
  Status take_extended(char type, const Block& block, std::uint64_t size, TarMember& member,
                       Extended& extended);
  Result<std::string> read_extended_body(std::uint64_t size);
  Status take_sparse_map(const Block& block, TarMember& member);
  Status finish_member(const Block& block, std::uint64_t size, TarMember& member,
                       const Extended& extended);
  Result<std::optional<TarMember>> at_end(bool inside_member) const;

  Read read_;
  std::string globals_;
  std::uint64_t at_ = 0;
  std::uint64_t data_left_ = 0;
  bool ended_ = false;  ///< an end marker was the last thing seen
};

/// Part of the name that all files of one sample have in common: the directory part and the base
/// name up to its first dot, as WebDataset groups them. A base name without a dot, or that begins
/// with one, is all of it.
[[nodiscard]] std::string_view sample_key(std::string_view name);

}  // namespace tarn::cli
