#include "target/drives/empty_drives.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "target/drive/drive_identity.h"

namespace tarn::target {
namespace {

namespace fs = std::filesystem;

// The index may be at an old compaction for a moment still, and make files meanwhile.
constexpr int kAttempts = 1000;

Status remove_tree(const fs::path& path) {
  std::error_code error;
  for (int i = 0; i < kAttempts; ++i) {
    fs::remove_all(path, error);
    if (!error) return {};
    if (error != std::errc::directory_not_empty) break;
  }
  return fail(Errc::io, "remove {}: {}", path.string(), error.message());
}

Status sync_all(const fs::path& root) {
  const UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return fail_errno(errno, "open " + root.string());
  if (::syncfs(fd.get()) != 0) return fail_errno(errno, "sync " + root.string());
  return {};
}

Status empty_drive(const fs::path& root) {
  const fs::path identity = root / kIdentityFile;
  const fs::path ours = identity.parent_path();
  TRY_OK(remove_tree(root / "data"));
  std::error_code error;
  std::vector<fs::path> rest;
  for (fs::directory_iterator at(ours, error), end; !error && at != end; at.increment(error))
    if (at->path() != identity) rest.push_back(at->path());
  if (error && error != std::errc::no_such_file_or_directory)
    return fail(Errc::io, "list {}: {}", ours.string(), error.message());
  for (const fs::path& path : rest) TRY_OK(remove_tree(path));
  TRY_OK(sync_all(root));
  TRY_OK(remove_tree(ours));
  return sync_all(root);
}

}  // namespace

Status empty_drives(const std::vector<std::string>& drives) {
  for (const std::string& drive : drives) TRY_OK(empty_drive(drive));
  return {};
}

bool any_has_identity(const std::vector<std::string>& drives) {
  return std::any_of(drives.begin(), drives.end(), [](const std::string& drive) {
    std::error_code error;
    return fs::exists(fs::path(drive) / kIdentityFile, error);
  });
}

}  // namespace tarn::target
