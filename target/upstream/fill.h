#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/event.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "target/drive/followed_file.h"
#include "target/upstream/dialect.h"

namespace tarn::target {

/// One cold object on its way from upstream to a drive, and what its readers share: one request
/// upstream, however many they are. Readers on any loop follow in the file; the last window is
/// released when the whole is known to be right. Thread-safe.
class Fill {
 public:
  /// `map_version`: by which this node owns the name.
  explicit Fill(std::uint64_t map_version = 0) : map_version_(map_version) {}

  /// Bytes that readers do not get before length and checksum agree, so that no reader ever holds
  /// a whole that is wrong.
  static constexpr std::uint64_t kHeldBack = 64U << 10U;

  // The writer's side.

  /// Notes the generation that the cluster has of the name before upstream is asked; nothing: it
  /// never had any.
  void note(std::optional<Generation> known);
  /// Upstream is asked, and no other target.
  void ask_upstream() { asks_upstream_ = true; }
  /// Upstream has answered. `file`: where the bytes are going to be.
  void open(UpstreamObject object, std::shared_ptr<FollowedFile> file);
  /// All before `end` has been written; the last window of the object stays held back.
  void written(std::uint64_t end);
  /// Releases all of it: the whole was compared with the checksums of upstream.
  void release_all();
  /// Ends the fill. An error: readers that have not all of it get it; after the first byte their
  /// connections are cut. `stored`: how many bytes became an object, or why none did. The first
  /// call counts.
  void end(Status readable, Result<std::uint64_t> stored);
  /// True if the error is one of this node, not of upstream: then readers may ask upstream
  /// themselves.
  void set_local_failure() { local_failure_ = true; }

  // The readers' side.

  struct Opened {
    UpstreamObject object;  ///< with its size
    std::shared_ptr<FollowedFile> file;
  };
  /// Waits until upstream has answered.
  Task<Result<Opened>> opened();
  /// True if opened() waits for upstream, and not for another target, which could wait for us.
  [[nodiscard]] bool asks_upstream() const { return asks_upstream_; }
  /// The same as opened() without waiting; nothing before.
  [[nodiscard]] std::optional<Opened> opened_now() const;
  /// False if the cluster has something else of the name than what was noted: it was written since,
  /// and this fill may fetch the version before.
  [[nodiscard]] bool is_of(const std::optional<Generation>& known) const;
  /// Waits until more than `at` bytes may be read; how many.
  Task<Result<std::uint64_t>> wait_beyond(std::uint64_t at);
  /// Waits for the end: how many bytes were stored. cancelled on `stop`.
  Task<Result<std::uint64_t>> ended(std::stop_token stop = {});
  /// True if all bytes have come and are right: they are being stored.
  [[nodiscard]] bool is_whole() const;
  /// Number of bytes that may be read.
  [[nodiscard]] std::uint64_t released() const;
  [[nodiscard]] bool has_local_failure() const { return local_failure_; }
  [[nodiscard]] std::uint64_t map_version() const { return map_version_; }

 private:
  template <class Look>
  Task<void> wait_for(Look look);

  const std::uint64_t map_version_;
  mutable Mutex mutex_;
  std::optional<std::optional<Generation>> known_ TARN_GUARDED_BY(mutex_);
  std::optional<Opened> opened_ TARN_GUARDED_BY(mutex_);
  std::uint64_t released_ TARN_GUARDED_BY(mutex_) = 0;
  bool is_whole_ TARN_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ TARN_GUARDED_BY(mutex_);
  std::optional<Result<std::uint64_t>> stored_ TARN_GUARDED_BY(mutex_);
  std::atomic<bool> local_failure_{false};
  std::atomic<bool> asks_upstream_{false};
  Event progress_;
};

/// The fills of a target, one a name at most. Thread-safe.
class FillBoard {
 public:
  struct Joined {
    std::shared_ptr<Fill> fill;
    bool is_new = false;  ///< the caller must begin it, and end() it
  };
  /// The fill of a name that is under way, or a new one, begun by a map of this version.
  [[nodiscard]] Joined join(const std::string& key, std::uint64_t map_version = 0);
  /// The one that is under way; null: none is.
  [[nodiscard]] std::shared_ptr<Fill> find(const std::string& key) const;
  /// Takes a fill that has ended from the board, if it is still there.
  void end(const std::string& key, const Fill& fill);
  /// Later readers do not join the fill that is under way: it may have an old version.
  void part_with(const std::string& key);
  [[nodiscard]] std::size_t running() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Fill>> fills_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
