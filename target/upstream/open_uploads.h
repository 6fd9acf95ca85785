#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "target/node/node.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

/// Uploads in parts that this target has begun upstream. Each is noted on the drive of its file
/// until it has ended: parts that a crash leaves there cost money, and nothing shows them. No note
/// is synced, so a power cut may leave parts; those of a kill -9 are removed. Thread-safe.
class OpenUploads {
 public:
  /// Both must outlive it.
  OpenUploads(TargetNode& node, Upstream& upstream) : node_(node), upstream_(upstream) {}

  struct Note {
    BucketId bucket{};
    std::string object;
    std::string upload;  ///< upstream's id of it
  };
  /// An upload that is under way here. When it dies without end(), the note stays, and
  /// remove_left() removes the parts.
  class Entry {
   public:
    Entry(OpenUploads& all, std::shared_ptr<Drive> drive, std::string upload)
        : all_(all), drive_(std::move(drive)), upload_(std::move(upload)) {}
    ~Entry() { all_.forget(upload_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    /// Its parts are an object or gone: the note goes, as far as the drive lets it.
    Task<void> end() { return all_.drop_note(*drive_, upload_); }

   private:
    OpenUploads& all_;
    const std::shared_ptr<Drive> drive_;
    const std::string upload_;
  };

  /// Notes an upload on the drive of its file. Errors: of the drive.
  Task<Result<std::unique_ptr<Entry>>> begin(std::shared_ptr<Drive> drive, Note note);
  /// Removes the parts of what is noted and not under way, first when the target has its lease,
  /// then every minute. So also those that could not be removed before, and those of a drive that
  /// comes back. Runs until it is cancelled.
  Task<void> remove_left();

 private:
  Task<Status> change(Drive& drive, std::function<void(std::vector<Note>&)> edit);
  Task<void> drop_note(Drive& drive, const std::string& upload);
  Task<void> remove_left_on(Drive& drive);
  Task<bool> remove(const Note& note);
  [[nodiscard]] bool is_under_way(const std::string& upload) const;
  void forget(const std::string& upload);

  TargetNode& node_;
  Upstream& upstream_;
  NameLocks turns_;  // of changes of the notes, by drive
  mutable Mutex mutex_;
  std::set<std::string> under_way_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
