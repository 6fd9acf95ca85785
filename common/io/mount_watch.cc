#include "common/io/mount_watch.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sys/inotify.h>
#include <unistd.h>

namespace tarn::io {

Result<MountWatch> MountWatch::of(const std::string& path) {
  UniqueFd events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (events.get() < 0) return fail_errno(errno, "inotify");
  // IN_UNMOUNT comes for any mask; the root of a file system is never deleted.
  if (::inotify_add_watch(events.get(), path.c_str(), IN_DELETE_SELF) < 0)
    return fail_errno(errno, path);
  return MountWatch(std::move(events));
}

bool MountWatch::ended() {
  alignas(inotify_event) std::array<char, 4096> buffer{};
  while (!ended_) {
    const ssize_t bytes = ::read(events_.get(), buffer.data(), buffer.size());
    if (bytes <= 0) break;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(bytes);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      ended_ = ended_ || (event.mask & IN_UNMOUNT) != 0;
      at += sizeof event + event.len;
    }
  }
  return ended_;
}

}  // namespace tarn::io
