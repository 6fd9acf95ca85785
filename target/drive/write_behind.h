#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "target/drive/head_turns.h"

namespace tarn::target {

class Drive;

/// The way of an unfinished file's bytes from memory to a rotational drive. They go window by
/// window, each in a turn (docs/decisions/007). So the head writes one long run and goes back to
/// the readers. One window is on its way while the next gathers in the page cache.
///
/// written() is for the drive's threads, the rest for one coroutine. Keeps itself alive while a
/// window is on its way.
class WriteBehind : public std::enable_shared_from_this<WriteBehind> {
 public:
  explicit WriteBehind(Drive& drive) : drive_(drive) {}
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Its turns from now on are of TurnFor::background.
  void for_background() { purpose_ = TurnFor::background; }
  /// All before `end` is in the page cache of `fd`. Sends a window on its way when it is full.
  void written(int fd, std::uint64_t end);
  /// Waits until the next window has room. An error of the drive: the file is lost.
  Task<Status> room();
  /// Waits until everything is on the drive, but for a rest that the sync of `fd` may take along.
  Task<Status> finish(int fd);
  /// The file was cut to `size`. Only when nothing is written meanwhile.
  Task<Status> cut(std::uint64_t size);

 private:
  struct Window {
    std::uint64_t begin;
    std::uint64_t end;
    int fd;  // fd_, which stays while the window is on its way
  };
  std::optional<Window> next(int fd, std::uint64_t least) TARN_REQUIRES(mutex_);
  void send(Window window) TARN_EXCLUDES(mutex_);
  void bring(Window window);
  void brought(Status result);
  Task<Status> wait_while(std::function<bool()> condition);

  Drive& drive_;
  TurnFor purpose_ = TurnFor::client;
  Mutex mutex_;
  // Our own: the file may be closed while a window is on its way.
  UniqueFd fd_ TARN_GUARDED_BY(mutex_);
  std::uint64_t end_ TARN_GUARDED_BY(mutex_) = 0;   // all before it is written
  std::uint64_t sent_ TARN_GUARDED_BY(mutex_) = 0;  // all before it is on the drive, or on its way
  bool on_its_way_ TARN_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ TARN_GUARDED_BY(mutex_);
  std::function<void()> waiter_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
