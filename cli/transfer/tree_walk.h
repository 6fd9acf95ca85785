#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace tarn::cli {

struct TreeFile {
  std::string path;        ///< to open it
  std::string name;        ///< below the directory, with '/' between its parts
  std::uint64_t size = 0;  ///< at the time of the walk
};

/// Files below a directory, by name.
struct Tree {
  std::vector<TreeFile> files;
  std::vector<std::string> left_out;  ///< "PATH: why": sockets, devices, links to directories
  std::vector<Error> problems;        ///< entries that could not be read
  std::uint64_t bytes = 0;
};

enum class LinksToDirectories : std::uint8_t { left_out, followed };

/// All files below `directory`. A symbolic link to a file is that file. One to a directory is left
/// out, or followed unless it leads back to a directory that it is in. Other file systems mounted
/// below are entered. not_found, or invalid_argument when `directory` is none. Blocks.
[[nodiscard]] Result<Tree> walk_tree(const std::string& directory, LinksToDirectories links);

}  // namespace tarn::cli
