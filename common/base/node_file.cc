#include "common/base/node_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/unique_fd.h"

namespace tarn {
namespace {

constexpr const char* kClusterFile = "cluster.uuid";

namespace fs = std::filesystem;

enum class Sync : bool { no, yes };

Status write_whole(int fd, std::string_view text, const fs::path& file) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(errno, "write " + file.string());
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status sync_directory(const fs::path& dir) {
  const UniqueFd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return fail_errno(errno, "sync " + dir.string());
  return {};
}

/// `file` holds all of `text`, or its former content.
Status replace_file(const fs::path& file, std::string_view text, Sync sync) {
  const fs::path next = file.string() + ".new";
  UniqueFd fd(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return fail_errno(errno, "create " + next.string());
  TRY_OK(write_whole(fd.get(), text, next));
  if (sync == Sync::yes && ::fsync(fd.get()) != 0)
    return fail_errno(errno, "sync " + next.string());
  TRY_OK(fd.close());
  if (::rename(next.c_str(), file.c_str()) != 0)
    return fail_errno(errno, "rename " + next.string() + " to " + file.string());
  if (sync == Sync::yes) return sync_directory(file.parent_path());
  return {};
}

bool is_id_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string NodeFile::text() const {
  nlohmann::ordered_json out;
  out["id"] = id;
  out["role"] = role;
  out["pid"] = ::getpid();
  out["urls"]["public"] = public_url;
  if (!relay_url.empty()) out["urls"]["relay"] = relay_url;
  out["urls"]["internal"] = internal_url;
  if (!drives.empty()) out["drives"] = drives;
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status write_node_file(const fs::path& dir, const NodeFile& node) {
  return replace_file(dir / "node.json", node.text(), Sync::no);
}

Status remove_node_file(const fs::path& dir) {
  std::error_code error;
  fs::remove(dir / "node.json", error);
  if (error) return fail(Errc::io, "remove {}/node.json: {}", dir.string(), error.message());
  return {};
}

Result<std::string> load_node_text(const fs::path& dir, const std::string& name) {
  const fs::path file = dir / name;
  std::error_code error;
  if (!fs::exists(file, error) && !error) return std::string();
  std::ifstream in(file);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) return fail(Errc::io, "{} cannot be read", file.string());
  return text;
}

Status save_node_text(const fs::path& dir, const std::string& name, const std::string& text) {
  return replace_file(dir / name, text, Sync::yes);
}

std::string known_cluster(const fs::path& dir) {
  std::ifstream in(dir / kClusterFile);
  std::string uuid;
  std::getline(in, uuid);
  return uuid;
}

Status remember_cluster(const fs::path& dir, const std::string& uuid) {
  return replace_file(dir / kClusterFile, uuid + "\n", Sync::yes);
}

Status forget_cluster(const fs::path& dir) {
  std::error_code error;
  fs::remove(dir / kClusterFile, error);
  if (error) return fail(Errc::io, "{}: {}", (dir / kClusterFile).string(), error.message());
  return {};
}

Result<std::string> load_or_create_node_id(const fs::path& dir, const std::string& role) {
  const fs::path file = dir / (role + ".id");
  if (std::ifstream in(file); in) {
    std::string id{std::istreambuf_iterator<char>(in), {}};
    while (id.ends_with('\n')) id.pop_back();
    if (id.size() != 9 || id.front() != role.front() ||
        !std::all_of(id.begin(), id.end(), is_id_char))
      return fail(Errc::corrupt, "{} holds '{}', want '{}' and 8 letters or digits", file.string(),
                  id, role.front());
    return id;
  }
  std::string id = role.substr(0, 1) + fail_point::identity(8, dir.native());
  TRY_OK(replace_file(file, id + "\n", Sync::yes));
  return id;
}

}  // namespace tarn
