#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/store/meta_model.h"

namespace tarn::cluster {

/// The embedded store on disk. Blocking; for one thread at a time.
///
///   <directory>/lock          held (flock) while a process has the store open
///   <directory>/acknowledged  the number of the last acknowledged commit (acknowledged_mark.h)
///   <directory>/db/           RocksDB: one synced write batch a commit
///     "k" key     -> create_revision(8) mod_revision(8) lease(8) value
///     "l" id(8)   -> ttl in seconds(8)
///     "revision"  -> (8)   "commits" -> (8)   "format" -> "1"      numbers are little-endian
///
/// State after a crash: a commit whose batch is not on disk never happened; one whose batch is, but
/// whose mark is not, was not acknowledged and counts from then on. A start that finds fewer
/// commits than the mark counts refuses, and has changed no file in the directory.
class MetaDatabase {
 public:
  struct Contents {
    Revision revision = 1;
    std::vector<KeyValue> items;
    std::vector<LeaseRecord> leases;
  };

  /// conflict when another process has the store open; corrupt when it has lost an acknowledged
  /// commit or cannot be read (no file was changed then); io and no_space from the file system.
  [[nodiscard]] static Result<std::unique_ptr<MetaDatabase>> open(
      const std::filesystem::path& directory);
  ~MetaDatabase();

  /// All keys and leases; call it once, after open().
  [[nodiscard]] Contents take_contents();
  /// Makes `change` durable. After a failure its outcome is unknown and the object is no longer of
  /// use.
  Status write(const Change& change);

 private:
  struct Impl;
  explicit MetaDatabase(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarn::cluster
