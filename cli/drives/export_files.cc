#include "cli/drives/export_files.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "cli/drives/slice_files.h"
#include "cli/transfer/scratch_file.h"
#include "common/api/bucket.h"
#include "common/base/encoding.h"
#include "common/base/hash.h"

namespace tarn::cli {
namespace {

constexpr std::size_t kExportFilesBufferBytes = 1U << 20U;

/// Counts the bytes that come, and writes them to `out` (if 0 or more).
class ExportFilesCopy {
 public:
  ExportFilesCopy(int out, const FoundFile& file) : out_(out), file_(file) {}

  Status take(std::span<const std::byte> chunk) {
    hash_.update(chunk);
    size_ += chunk.size();
    return out_ < 0 ? Status() : write_all(out_, chunk, "the copy of " + file_.path);
  }
  /// Checks the bytes against size and checksum of `file`.
  [[nodiscard]] Status check() const {
    if (size_ != file_.size)
      return fail(Errc::corrupt, "{} has {} bytes, its object {}", file_.path, size_, file_.size);
    if (hash_.digest() != file_.xxh64)
      return fail(Errc::corrupt, "{} has the XXH64 {}, its object {}", file_.path,
                  hex64(hash_.digest()), hex64(file_.xxh64));
    return {};
  }

 private:
  int out_;
  const FoundFile& file_;
  Xxh64Stream hash_;
  std::uint64_t size_ = 0;
};

/// Reads `fd` to its end.
Status copy_verified(int fd, int out, const FoundFile& file) {
  std::vector<std::byte> buffer(kExportFilesBufferBytes);
  ExportFilesCopy copy(out, file);
  while (true) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read " + file.path);
    if (got == 0) return copy.check();
    TRY_OK(copy.take(std::span<const std::byte>(buffer).first(static_cast<std::size_t>(got))));
  }
}

Status copy_from_slices(int out, const FoundFile& file) {
  ExportFilesCopy copy(out, file);
  TRY_OK(read_slices(file, [&](std::span<const std::byte> chunk) { return copy.take(chunk); }));
  return copy.check();
}

Result<UniqueFd> export_files_open_file(const FoundFile& file) {
  UniqueFd fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return fail_errno(errno, "open " + file.path);
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return fd;
}

/// True if `directory` has the object already; conflict when it has something else under its name.
Result<bool> is_there(int directory, const std::string& base, const std::string& shown,
                      const FoundFile& file) {
  const UniqueFd there(::openat(directory, base.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!there.valid() && errno == ENOENT) return false;
  struct stat info{};
  const bool regular = there.valid() && ::fstat(there.get(), &info) == 0 && S_ISREG(info.st_mode);
  if (regular && copy_verified(there.get(), -1, file)) return true;
  return fail(Errc::conflict, "'{}' is there already, with other content: move it away", shown);
}

void set_modified(int fd, std::int64_t modified_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec when{modified_ns / kSecond, modified_ns % kSecond};
  const timespec times[2] = {when, when};
  ::futimens(fd, times);  // a file system without times is good enough
}

}  // namespace

Result<ExportDirectory> ExportDirectory::open(const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(path, ec);
  if (ec) return fail(Errc::io, "make the directory '{}': {}", path, ec.message());
  ExportDirectory out;
  out.path_ = path;
  out.root_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!out.root_.valid()) return fail_errno(errno, "open the directory '" + path + "'");
  return out;
}

/// The directory that `name` lies in. Step by step and without following links.
Result<UniqueFd> ExportDirectory::make_directories(const std::string& folder,
                                                   const std::string& name) const {
  std::string_view rest = name;
  std::string step = folder;
  std::string shown = path_;
  UniqueFd at(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 3));
  while (true) {
    shown += "/" + step;
    if (::mkdirat(at.get(), step.c_str(), 0777) != 0 && errno != EEXIST)
      return fail_errno(errno, "make the directory '" + shown + "'");
    UniqueFd next(
        ::openat(at.get(), step.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid())
      return fail(Errc::conflict, "'{}' is no directory, but an object wants to lie in it", shown);
    at = std::move(next);
    const auto slash = rest.find('/');
    if (slash == std::string_view::npos) return at;
    step = rest.substr(0, slash);
    rest.remove_prefix(slash + 1);
  }
}

Result<ExportDirectory::Outcome> ExportDirectory::write(const std::string& folder,
                                                        const std::string& name,
                                                        const FoundFile& file) {
  const std::string shown = path_ + "/" + folder + "/" + name;
  const bool folder_is_way_out =
      folder.empty() || folder == "." || folder == ".." || folder.find('/') != std::string::npos;
  if (const auto checked = api::check_object_name(name); folder_is_way_out || !checked)
    return fail(Errc::invalid_argument, "{}: '{}' is refused, it could lead out of '{}'", file.path,
                folder + "/" + name, path_);
  UniqueFd source;
  if (file.slices == nullptr) {
    TRY(source, export_files_open_file(file));
  }
  TRY(UniqueFd directory, make_directories(folder, name));
  const std::string base = name.substr(name.rfind('/') + 1);  // npos + 1 is 0
  TRY(const bool there, is_there(directory.get(), base, shown, file));
  if (there) return Outcome::already_there;
  TRY(const auto copy, ScratchFile::create(std::move(directory), base));
  TRY_OK(file.slices == nullptr ? copy_verified(source.get(), copy->fd(), file)
                                : copy_from_slices(copy->fd(), file));
  set_modified(copy->fd(), file.modified_ns);
  TRY_OK(copy->publish());
  return Outcome::written;
}

Status ExportDirectory::sync() {
  if (::syncfs(root_.get()) != 0) return fail_errno(errno, "sync '" + path_ + "'");
  return {};
}

}  // namespace tarn::cli
