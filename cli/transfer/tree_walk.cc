#include "cli/transfer/tree_walk.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <sys/stat.h>
#include <utility>

#include <dirent.h>
#include <fmt/format.h>

namespace tarn::cli {
namespace {

using Identity = std::pair<dev_t, ino_t>;

class Walk {
 public:
  explicit Walk(LinksToDirectories links) : links_(links) {}

  void enter(const std::string& path, const std::string& name, Identity identity) {
    const auto entries = list(path);
    if (!entries) return problem(entries.error());
    above_.push_back(identity);
    for (const std::string& entry : *entries)
      look(fmt::format("{}/{}", path, entry),
           name.empty() ? entry : fmt::format("{}/{}", name, entry));
    above_.pop_back();
  }
  Tree take() { return std::move(tree_); }

 private:
  static Result<std::vector<std::string>> list(const std::string& path) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (!directory) return fail_errno(errno, fmt::format("open the directory '{}'", path));
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string_view name(entry->d_name);
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return fail_errno(errno, fmt::format("read the directory '{}'", path));
    std::sort(names.begin(), names.end());
    return names;
  }

  void look(const std::string& path, const std::string& name) {
    struct stat own{};
    struct stat info{};
    if (::lstat(path.c_str(), &own) != 0 || ::stat(path.c_str(), &info) != 0) {
      const int why = errno;
      const bool dangling = S_ISLNK(own.st_mode) && why == ENOENT;
      if (dangling)
        return problem({Errc::not_found, fmt::format("'{}' is a link to nothing", path)});
      return problem(fail_errno(why, fmt::format("'{}'", path)).value());
    }
    if (S_ISREG(info.st_mode)) {
      tree_.files.push_back({path, name, static_cast<std::uint64_t>(info.st_size)});
      tree_.bytes += static_cast<std::uint64_t>(info.st_size);
    } else if (S_ISDIR(info.st_mode)) {
      look_at_directory(path, name, S_ISLNK(own.st_mode), {info.st_dev, info.st_ino});
    } else {
      leave_out(path, "neither a file nor a directory");
    }
  }

  void look_at_directory(const std::string& path, const std::string& name, bool link,
                         Identity identity) {
    if (link && links_ == LinksToDirectories::left_out)
      return leave_out(path, "a link to a directory (--follow enters it)");
    if (std::find(above_.begin(), above_.end(), identity) != above_.end())
      return leave_out(path, "a link to a directory that it is in");
    enter(path, name, identity);
  }

  void leave_out(const std::string& path, const char* why) {
    tree_.left_out.push_back(fmt::format("'{}' is left out: {}", path, why));
  }
  void problem(Error error) { tree_.problems.push_back(std::move(error)); }

  LinksToDirectories links_;
  std::vector<Identity> above_;
  Tree tree_;
};

}  // namespace

Result<Tree> walk_tree(const std::string& directory, LinksToDirectories links) {
  struct stat info{};
  if (::stat(directory.c_str(), &info) != 0 && errno == ENOENT)
    return fail(Errc::not_found, "there is no directory '{}'", directory);
  if (::stat(directory.c_str(), &info) != 0) return fail_errno(errno, "'" + directory + "'");
  if (!S_ISDIR(info.st_mode))
    return fail(Errc::invalid_argument, "'{}' is a file: put it without -r", directory);
  std::string path = directory;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  Walk walk(links);
  walk.enter(path, "", {info.st_dev, info.st_ino});
  return walk.take();
}

}  // namespace tarn::cli
