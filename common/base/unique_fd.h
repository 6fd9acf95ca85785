#pragma once

#include <cerrno>
#include <unistd.h>
#include <utility>

#include "common/base/error.h"

namespace tarn {

/// Owns a file descriptor. Move-only; the destructor closes without looking at the result, so a
/// file that was written is closed by close(), which reports.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  Status close() {
    if (fd_ < 0) return {};
    if (::close(std::exchange(fd_, -1)) != 0) return fail_errno(errno, "close");
    return {};
  }

 private:
  int fd_ = -1;
};

}  // namespace tarn
