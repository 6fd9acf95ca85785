#include "cli/sink.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace tarn::cli {

Result<Sink> Sink::open(const std::string& path) {
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
  const std::string name = file.filename();
  if (name.empty() || (exists && S_ISDIR(info.st_mode)))
    return fail(Errc::invalid_argument, "'{}' is a directory, not a file", path);
  const std::string parent = file.has_parent_path() ? file.parent_path().string() : ".";
  UniqueFd directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return fail_errno(errno, "open the directory '" + parent + "'");
  TRY(sink.file_, ScratchFile::create(std::move(directory), name));
  return sink;
}

Status Sink::write(std::span<const std::byte> bytes) {
  written_ = true;
  return write_all(file_ ? file_->fd() : stream_.get(), bytes, path_);
}

Result<bool> Sink::restart() {
  if (!file_) return !written_;
  TRY_OK(file_->restart());
  written_ = false;
  return true;
}

Status Sink::publish() { return file_ ? file_->publish() : stream_.close(); }

}  // namespace tarn::cli
