#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/cluster/hrw.h"
#include "target/drive.h"
#include "target/mirror.h"
#include "target/name_locks.h"
#include "target/object_name.h"
#include "target/open_objects.h"

namespace tarn::target {

/// The drives of a target as one store: which drive a name lives on, and where else it may lie.
/// A name's home is the first drive in HRW order over all drives that the target has ever had and
/// not given up, there or not. Full drives pass new files on in that order. Thread-safe.
class ObjectStore {
 public:
  /// `missing`: path -> why, as DrivePlan has it.
  ObjectStore(std::vector<std::unique_ptr<Drive>> drives,
              std::map<std::string, std::string> missing);

  [[nodiscard]] const std::vector<std::unique_ptr<Drive>>& drives() const { return drives_; }
  [[nodiscard]] const std::map<std::string, std::string>& missing() const { return missing_; }
  [[nodiscard]] NameLocks& locks() { return locks_; }
  /// Whether a name may lie on another drive than its home: then what one drive says of it may be
  /// out of date.
  [[nodiscard]] bool may_hold_foreign() const;

  /// What is particular to mirrored buckets.
  [[nodiscard]] Mirror& mirror() { return mirror_; }

  /// unavailable when the drive where `name` lives is away or out; of a mirrored name, when too
  /// many are.
  [[nodiscard]] Status reachable(const ObjectName& name) const;
  /// All records of a name, tombstones included, the newest first. unavailable when a drive that
  /// may hold one does not answer.
  Task<Result<std::vector<Located>>> find_all(ObjectName name);
  /// The same for a write that overwrites whatever there is: of a mirrored name, what can be seen.
  Task<Result<std::vector<Located>>> find_seen(ObjectName name);
  /// The newest version, when it is open already and its drive can be asked; else null: then
  /// open_object() knows. Never waits.
  [[nodiscard]] std::shared_ptr<OpenObject> find_open(const ObjectName& name);
  /// The newest version with its file open; null when there is none. unavailable rather than null
  /// when a drive that may hold one is away.
  Task<Result<std::shared_ptr<OpenObject>>> open_object(ObjectName name);
  /// The newest record; nothing for none and for a tombstone. Errors as open_object.
  Task<Result<std::optional<io::ObjectRecord>>> find(ObjectName name);

  /// A new file on the drive where `name` belongs, or the next one that has room. no_space when
  /// none has.
  Task<Result<std::unique_ptr<WorkFile>>> create(ObjectName name,
                                                 std::optional<std::uint64_t> length);
  /// The drive that a work file is on decides where the object lies; all other records of the name
  /// are `others` (from find_all) and are removed once it is published. The caller holds the name's
  /// lock.
  Task<Status> publish(ObjectName name, WorkFile& file, io::ObjectAttribute attribute,
                       std::vector<std::uint32_t> checksums, std::vector<Located> others,
                       cluster::Durability durability);
  /// Replaces the metadata of `name` on `drive`, which holds it, as Drive::patch does; of a
  /// mirrored name, on all that hold it. The caller holds the name's lock.
  Task<Status> patch(ObjectName name, Drive& drive, io::ObjectAttribute attribute);
  /// Durably deletes all of `present` (from find_all, under the lock).
  Task<Status> remove(ObjectName name, std::vector<Located> present, io::ObjectRecord tombstone);

  /// Removes what a destroyed bucket left, in the background.
  void forget_bucket(BucketId bucket);

  struct Listed {
    std::string name;
    io::ObjectRecord record;
    const Drive* drive = nullptr;  ///< that holds it; null for a virtual directory
    std::uint32_t copies = 1;      ///< drives that hold this version
  };
  struct Page {
    std::vector<Listed> entries;  ///< live objects; names that end in '/' are virtual directories
    bool more = false;
  };
  /// Names greater than `after` that begin with `prefix`, in byte order, at most `limit`. With
  /// `by_directory`, names with a further '/' are folded into one entry "dir/". Never short:
  /// unavailable when any drive is away.
  Task<Result<Page>> list(BucketId bucket, std::string prefix, std::string after, std::size_t limit,
                          bool by_directory);

 private:
  /// Indexes into paths_, best first.
  [[nodiscard]] std::vector<std::size_t> order(const ObjectName& name) const;
  [[nodiscard]] Result<Drive*> home(const ObjectName& name,
                                    const std::vector<std::size_t>& order) const;
  Task<Result<Page>> list_once(BucketId bucket, const std::string& prefix, const std::string& after,
                               std::size_t limit, std::string& next);

  std::vector<std::unique_ptr<Drive>> drives_;
  std::map<std::string, std::string> missing_;
  std::vector<std::string> paths_;              // drives_, then missing_
  std::vector<cluster::Candidate> candidates_;  // of paths_
  NameLocks locks_;
  friend class Mirror;
  Mirror mirror_{*this};
  OpenObjects open_;  // behind drives_: it closes files on their threads
};

}  // namespace tarn::target
