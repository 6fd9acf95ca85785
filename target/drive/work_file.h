#pragma once

#include <cstdint>
#include <memory>

#include "common/base/unique_fd.h"
#include "common/io/object_attribute.h"
#include "target/drive/write_behind.h"

namespace tarn::target {

class Drive;

/// A data file that no reader sees yet. Dies with its bytes unless published: the file is then
/// unlinked on the drive's threads. Made by Drive::create; not shared between threads, but its last
/// write may still run on the drive's.
class WorkFile {
 public:
  WorkFile(Drive& drive, io::FileName name, UniqueFd fd);
  ~WorkFile();
  WorkFile(const WorkFile&) = delete;
  WorkFile& operator=(const WorkFile&) = delete;
  [[nodiscard]] const io::FileName& name() const { return name_; }
  [[nodiscard]] Drive& drive() const { return drive_; }
  /// The drive may write its last GiB later: it is going to be acknowledged before it is synced.
  void write_late() { late_ = true; }
  /// No client waits for it. Before the first byte is written.
  void write_in_background() {
    if (write_behind_) write_behind_->for_background();
  }
  /// True if fewer copies of it were made than its bucket asks for.
  [[nodiscard]] bool degraded() const { return degraded_; }
  void set_degraded() { degraded_ = true; }
  /// False once it has been published, or failed to be and is gone.
  [[nodiscard]] bool is_open() const { return fd_.valid(); }

 private:
  friend class Drive;
  Drive& drive_;
  io::FileName name_;
  UniqueFd fd_;
  std::uint64_t end_ = 0;           // after the last byte that was written
  std::uint64_t written_back_ = 0;  // multiples of 8 MiB: room on the drive was looked at
  bool late_ = false;
  std::shared_ptr<WriteBehind> write_behind_;  // rotational ones only
  bool published_ = false;
  bool degraded_ = false;
};

}  // namespace tarn::target
