#include "cli/transfer/sink.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace tarn::cli {

Result<Sink> Sink::open(const std::string& path, const std::vector<std::string>& partials) {
  Sink sink;
  sink.path_ = path == "-" ? "standard output" : path;
  struct stat info{};
  const bool exists = path != "-" && ::stat(path.c_str(), &info) == 0;
  if (path == "-" || (exists && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))) {
    sink.stream_ = UniqueFd(path == "-" ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                        : ::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!sink.stream_.valid()) return fail_errno(errno, "open '" + sink.path_ + "'");
    return sink;
  }
  const std::filesystem::path file(path);
  sink.name_ = file.filename();
  if (exists && S_ISDIR(info.st_mode))
    return fail(Errc::invalid_argument, "'{}' is a directory, not a file", path);
  if (sink.name_.empty())
    return fail(Errc::invalid_argument,
                "there is no directory '{0}': make it first (mkdir -p '{0}')", path);
  sink.directory_path_ = file.has_parent_path() ? file.parent_path().string() : ".";
  TRY_OK(sink.open_directory());
  for (const std::string& name : partials)
    if (is_partial_of(name, sink.name_)) sink.leftovers_.push_back(name);
  return sink;
}

/// Reports its faults before anything is asked of the cluster.
Status Sink::open_directory() {
  directory_ = UniqueFd(::open(directory_path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory_.valid() && errno == ENOENT)
    return fail(Errc::not_found, "there is no directory '{0}': make it first (mkdir -p '{0}')",
                directory_path_);
  if (!directory_.valid()) return fail_errno(errno, "open the directory '" + directory_path_ + "'");
  if (::faccessat(directory_.get(), ".", W_OK, 0) != 0)
    return fail_errno(errno, "write into the directory '" + directory_path_ + "'");
  return {};
}

Result<std::uint64_t> Sink::take_up(const Content& content, Xxh64Stream& hash) {
  const std::string wanted = partial_name(name_, content);
  const bool there = std::find(leftovers_.begin(), leftovers_.end(), wanted) != leftovers_.end();
  for (const std::string& other : leftovers_)
    if (other != wanted) ScratchFile::remove_partial(directory_.get(), other);
  leftovers_.clear();
  if (!there) return std::uint64_t{0};
  TRY_OK(create(content));
  TRY(const std::uint64_t size, file_->take_up(content.size, hash));
  written_ = size > 0;
  return size;
}

Status Sink::begin(const Content& content) {
  if (stream_.valid()) return {};
  TRY_OK(create(content));
  return file_->restart();
}

Status Sink::create(const Content& content) {
  file_.reset();
  UniqueFd directory(::fcntl(directory_.get(), F_DUPFD_CLOEXEC, 3));
  if (!directory.valid()) return fail_errno(errno, "open '" + directory_path_ + "' again");
  TRY(file_,
      ScratchFile::create_partial(std::move(directory), name_, partial_name(name_, content)));
  return {};
}

Status Sink::write(std::span<const std::byte> bytes) {
  written_ = true;
  return write_all(file_ ? file_->fd() : stream_.get(), bytes, path_);
}

Result<bool> Sink::restart() {
  if (stream_.valid()) return !written_;
  file_.reset();
  written_ = false;
  return true;
}

std::string Sink::keep() {
  if (!file_ || !written_) return {};
  std::string name = file_->keep();
  if (name.empty()) return name;
  return std::filesystem::path(directory_path_) / name;
}

Status Sink::publish() { return file_ ? file_->publish() : stream_.close(); }

}  // namespace tarn::cli
