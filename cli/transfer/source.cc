#include "cli/transfer/source.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/base/hash.h"

namespace tarn::cli {

Result<std::uint64_t> hash_of(Body& body) {
  Xxh64Stream hash;
  std::string buffer(1U << 20U, '\0');
  const auto bytes = std::as_writable_bytes(std::span(buffer));
  if (!body.rewind()) return fail(Errc::internal, "a stream cannot be hashed before it is sent");
  while (true) {
    TRY(const std::size_t got, body.read(bytes));
    if (got == 0) break;
    hash.update(bytes.first(got));
  }
  if (!body.rewind()) return fail(Errc::internal, "a stream cannot be hashed before it is sent");
  return hash.digest();
}

Result<Source> Source::open(const std::string& path) {
  Source source;
  const bool standard = path == "-";
  source.path_ = standard ? "standard input" : path;
  source.fd_ = UniqueFd(standard ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source.fd_.valid() && errno == ENOENT)
    return fail(Errc::not_found, "there is no file '{}'", path);
  if (!source.fd_.valid()) return fail_errno(errno, "open " + source.path_);
  struct stat info{};
  if (::fstat(source.fd_.get(), &info) != 0) return fail_errno(errno, "stat " + source.path_);
  if (S_ISDIR(info.st_mode))
    return fail(Errc::invalid_argument,
                "'{}' is a directory: send its files one by one, or as a tar: "
                "tar -cf - {} | tarn put - BUCKET/NAME.tar",
                path, path);
  // Files of /proc report a size of 0 although they have bytes.
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    TRY_OK(source.look_for_end());
    return source;
  }
  const off_t at = ::lseek(source.fd_.get(), 0, SEEK_CUR);
  source.start_ = at > 0 ? static_cast<std::uint64_t>(at) : 0;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  source.length_ = size - std::min(size, source.start_);
  return source;
}

/// Waits for the first byte of a stream, or its end.
Status Source::look_for_end() {
  std::byte first{};
  TRY(const std::size_t got, read(std::span(&first, 1)));
  read_ = 0;
  if (got == 0) {
    length_ = 0;
  } else {
    first_ = first;
  }
  return {};
}

bool Source::rewind() {
  if (!length_) return read_ == 0;
  read_ = 0;
  return true;
}

Result<std::size_t> Source::read(std::span<std::byte> into) {
  if (length_) into = into.first(std::min<std::uint64_t>(into.size(), *length_ - read_));
  if (into.empty()) return std::size_t{0};
  if (first_) {
    into.front() = *std::exchange(first_, std::nullopt);
    read_ = 1;
    return std::size_t{1};
  }
  while (true) {
    const auto at = static_cast<off_t>(start_ + read_);
    const ssize_t got = length_ ? ::pread(fd_.get(), into.data(), into.size(), at)
                                : ::read(fd_.get(), into.data(), into.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read " + path_);
    if (got == 0 && length_)
      return fail(Errc::conflict, "'{}' became shorter while it was sent: {} bytes, not {}", path_,
                  read_, *length_);
    read_ += static_cast<std::uint64_t>(got);
    return static_cast<std::size_t>(got);
  }
}

}  // namespace tarn::cli
