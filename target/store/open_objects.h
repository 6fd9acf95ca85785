#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "target/drive/open_object.h"

namespace tarn::target {

/// Objects that stay open after they were read, so that the next reader needs neither the index nor
/// a visit to the drive's threads. Answers are those of the index: an object is never found here
/// once a change of its name has begun. None is kept that was looked up before the end of a change.
/// Thread-safe; no lock is held while a drive works.
class OpenObjects {
 public:
  /// An open object costs a descriptor: kept are an eighth of the limit on open files, at most
  /// this, and at most some 16 MiB of checksums and metadata; the least recently used go.
  static constexpr std::size_t kCountMax = 4096;

  OpenObjects();
  ~OpenObjects();
  OpenObjects(const OpenObjects&) = delete;
  OpenObjects& operator=(const OpenObjects&) = delete;

  /// The object under this name, or null when it is not open.
  [[nodiscard]] std::shared_ptr<OpenObject> find(BucketId bucket, std::string_view name);

  /// Taken before a name is looked up in the index.
  using Moment = std::uint64_t;
  [[nodiscard]] Moment now(BucketId bucket, std::string_view name);
  /// Keeps what a look-up begun at `since` found, unless the name has been changed since then.
  /// `object` must have all its checksums.
  void keep(BucketId bucket, std::string_view name, Moment since,
            const std::shared_ptr<OpenObject>& object);

  /// A change of a name, from before its commit to after it. The file that it replaces is let go of
  /// at once: an unlinked file takes room as long as it is open.
  class [[nodiscard]] Change {
   public:
    Change(OpenObjects& all, BucketId bucket, std::string name);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    OpenObjects& all_;
    const BucketId bucket_;
    const std::string name_;
  };

  /// Lets go of all objects of a drive.
  void forget_drive(const Drive& drive);

  /// Lets go of a destroyed bucket, whose number never comes again, and keeps nothing of it any
  /// more.
  void forget_bucket(BucketId bucket);

 private:
  struct Entry {
    BucketId bucket;
    std::string name;
    std::shared_ptr<OpenObject> object;
    std::size_t bytes;
  };
  struct Key {
    BucketId bucket;
    std::string_view name;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  using Entries = std::list<Entry>;
  /// Part of the names, with a lock of its own.
  struct Shard {
    Mutex mutex;
    Entries entries TARN_GUARDED_BY(mutex);  // most recently used first
    // Names lie in the entries.
    std::unordered_map<Key, Entries::iterator, Hash> by_name TARN_GUARDED_BY(mutex);
    std::vector<std::pair<BucketId, std::string>> changing TARN_GUARDED_BY(mutex);
    std::set<BucketId> dead TARN_GUARDED_BY(mutex);
    Moment moment TARN_GUARDED_BY(mutex) = 0;  // counts beginnings and ends of changes
    std::size_t bytes TARN_GUARDED_BY(mutex) = 0;
    /// Takes an entry out, to be let go of without the lock.
    void take(Entries::iterator entry, Entries& into) TARN_REQUIRES(mutex);
  };
  static constexpr std::size_t kShards = 16;

  [[nodiscard]] Shard& shard_of(const Key& key) { return shards_[Hash()(key) % kShards]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace tarn::target
