#pragma once

#include <string>

#include "cli/drives/drive_scan.h"
#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace tarn::cli {

/// Writes objects as files below one directory and nowhere else: names that would lead out of it,
/// by ".." or by a symbolic link, are refused. Blocking.
class ExportDirectory {
 public:
  enum class Outcome : std::uint8_t { written, already_there };

  /// Makes the directory when it is not there.
  [[nodiscard]] static Result<ExportDirectory> open(const std::string& path);

  /// Copies `file`, or makes the object of its slices, to <folder>/<name>. The file appears when
  /// its size and XXH64 are those of the object: corrupt otherwise. A file that is there already is
  /// left alone: conflict, unless it is the same.
  Result<Outcome> write(const std::string& folder, const std::string& name, const FoundFile& file);
  /// Puts all written files on stable storage.
  Status sync();

 private:
  [[nodiscard]] Result<UniqueFd> make_directories(const std::string& folder,
                                                  const std::string& name) const;

  std::string path_;
  UniqueFd root_;
};

}  // namespace tarn::cli
