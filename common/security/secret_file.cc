#include "common/security/secret_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/unique_fd.h"

namespace tarn::security {
namespace {

constexpr std::size_t kFileBytesMax = 4096;

Result<std::string> read_small(int fd, const std::string& name) {
  std::string text(kFileBytesMax, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(fd, text.data() + have, text.size() - have);
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, "read " + name);
    }
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

}  // namespace

Result<std::string> read_secret_file(const std::filesystem::path& file) {
  const std::string name = file.string();
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return fail(Errc::invalid_argument, "there is no secret at {}", name);
    return fail_errno(errno, "open " + name);
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return fail_errno(errno, "stat " + name);
  if ((info.st_mode & 077U) != 0)
    return fail(
        Errc::invalid_argument,
        "{} has mode {:03o}: others may read it; make it 600 (and consider the secret known)", name,
        info.st_mode & 0777U);
  return read_small(fd.get(), name);
}

}  // namespace tarn::security
