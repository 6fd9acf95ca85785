#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace tarn::cli {

/// A data file that says which object it is.
struct FoundFile {
  std::string path;
  BucketId bucket_id{};
  Generation generation;
  std::uint64_t size = 0;
  std::uint64_t xxh64 = 0;
  std::int64_t modified_ns = 0;
};

/// Whose a drive is, by its own word.
struct DriveLabel {
  std::string cluster;
  std::string node;  ///< the target
};
/// not_found when the directory is no drive of Tarn, forbidden when this user may not look,
/// unsupported for another format. Blocks.
[[nodiscard]] Result<DriveLabel> read_drive_label(const std::string& drive);

/// The newest files of every object of a set of drives, read without a cluster: from the files
/// alone, as docs/on-disk-layout.md describes. Blocking.
class DriveScan {
 public:
  using ObjectKey = std::pair<std::string, std::string>;  ///< folder of the bucket, name
  using Problem = std::function<void(const Error&)>;

  /// `problem` is told of each file that cannot be read; the scan goes on.
  explicit DriveScan(Problem problem) : problem_(std::move(problem)) {}

  /// Reads the attributes of all files below DRIVE/data. not_found when it is no drive of Tarn,
  /// conflict when it is one of another cluster than the drives before.
  Status add(const std::string& drive);

  /// Files of equal, newest generation, in the order of bucket and name. A bucket is called as the
  /// newest .tarn/cluster.json of the drives says, since its files keep the name that it was made
  /// with. Of buckets of one name that one counts, or else the last one made.
  [[nodiscard]] std::map<ObjectKey, std::vector<FoundFile>> objects() const;
  /// Files without attribute: writes that were never finished.
  [[nodiscard]] std::uint64_t unfinished() const { return unfinished_; }

 private:
  Status check_identity(const std::string& drive);
  void learn_names(const std::string& drive);
  void scan_directory(const std::string& directory);
  void take(const std::string& path);
  void keep(const std::string& folder, const std::string& name, FoundFile file);
  [[nodiscard]] std::map<std::string, BucketId> buckets_by_folder() const;

  Problem problem_;
  std::string cluster_;
  std::uint64_t names_version_ = 0;          // of the bucket metadata that names_ is from
  std::map<BucketId, std::string> names_;    // folders of the buckets that there are
  std::map<BucketId, std::string> made_as_;  // folders as the files have them
  std::map<std::pair<BucketId, std::string>, std::vector<FoundFile>> files_;
  std::uint64_t unfinished_ = 0;
};

}  // namespace tarn::cli
