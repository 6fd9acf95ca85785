#include "common/io/mount_info.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <vector>

namespace tarn::io {
namespace {

/// mountinfo writes space, tab, newline and backslash as "\040" and the like.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_below(std::string_view path, std::string_view mount) {
  if (mount == "/") return true;
  return path.starts_with(mount) && (path.size() == mount.size() || path[mount.size()] == '/');
}

/// Name of the disk of a block device: of a partition the whole disk's.
std::string disk_of(dev_t device) {
  namespace fs = std::filesystem;
  std::error_code problem;
  const auto link = fs::path("/sys/dev/block") /
                    (std::to_string(major(device)) + ":" + std::to_string(minor(device)));
  const auto where = fs::canonical(link, problem);
  if (problem) return "";
  if (fs::exists(where / "partition", problem)) return where.parent_path().filename().string();
  return where.filename().string();
}

}  // namespace

MountInfo find_mount(std::string_view mountinfo, std::string_view path) {
  MountInfo out;
  std::string best;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    std::size_t dash = 6;  // optional fields end with a lone '-'
    while (dash < fields.size() && fields[dash] != "-") ++dash;
    if (dash + 2 >= fields.size()) continue;
    std::string point = unescape(fields[4]);
    // Of two at one place the later one lies on top.
    if (!is_below(path, point) || point.size() < best.size()) continue;
    best = std::move(point);
    out.type = fields[dash + 1];
    out.device = unescape(fields[dash + 2]);
  }
  return out;
}

Result<MountInfo> mount_info(const std::string& path) {
  struct ::statfs space{};
  struct ::stat info{};
  if (::statfs(path.c_str(), &space) != 0 || ::stat(path.c_str(), &info) != 0)
    return fail_errno(errno, path);
  std::ostringstream text;
  text << std::ifstream("/proc/self/mountinfo").rdbuf();
  MountInfo out = find_mount(text.str(), path);
  std::array<std::int32_t, 2> id{};
  static_assert(sizeof(id) == sizeof(space.f_fsid));
  std::memcpy(id.data(), &space.f_fsid, sizeof(id));
  out.id = std::to_string(id[0]) + "," + std::to_string(id[1]);
  out.disk = disk_of(info.st_dev);
  return out;
}

}  // namespace tarn::io
