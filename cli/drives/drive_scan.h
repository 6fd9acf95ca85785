#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/io/object_attribute.h"

namespace tarn::cli {

/// Files found of the slices of an object that were made together (docs/decisions/019).
struct FoundSet {
  io::Slice shape;  ///< the set and the way it is cut; its index has no meaning
  struct File {
    std::string path;
    std::uint8_t index = 0;  ///< of the slice
  };
  std::vector<File> slices;  ///< in the order of their indexes; one may be there twice
  std::vector<std::string> full_copies;
};

/// A data file that names its object, or slices that do.
struct FoundFile {
  std::string path;  ///< its name in messages
  BucketId bucket_id{};
  Generation generation;
  std::uint64_t size = 0;  ///< of the object
  std::uint64_t xxh64 = 0;
  std::int64_t modified_ns = 0;
  std::shared_ptr<const FoundSet> slices;  ///< not null: the bytes are to be made of these
};

/// Cluster and target that a drive names as its own.
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

  /// `problem` is called for each file that cannot be read; the scan goes on.
  explicit DriveScan(Problem problem) : problem_(std::move(problem)) {}

  /// Reads the attributes of all files below DRIVE/data. not_found when it is no drive of Tarn,
  /// conflict when it is one of another cluster than the drives before.
  Status add(const std::string& drive);

  /// Files of equal, newest generation, in the order of bucket and name. Of an object that is kept
  /// in slices: each full copy, then its slices, however few. A bucket is called as in the newest
  /// .tarn/cluster.json of the drives, since its files keep the name that it was made with. Of
  /// buckets of one name that one counts, or else the last one made.
  [[nodiscard]] std::map<ObjectKey, std::vector<FoundFile>> objects() const;
  /// As objects(): of names of which no record was found, but slices that are enough, the set that
  /// was written last. Its record has been lost with all of its replicas, or the object was deleted
  /// or overwritten when some of them were away: the slices do not show it.
  [[nodiscard]] std::map<ObjectKey, std::vector<FoundFile>> without_record() const;
  /// Files without attribute: writes that were never finished.
  [[nodiscard]] std::uint64_t unfinished() const { return unfinished_; }

 private:
  Status check_identity(const std::string& drive);
  void learn_names(const std::string& drive);
  void scan_directory(const std::string& directory);
  void take(const std::string& path);
  void keep(const std::string& folder, const std::string& name, FoundFile file);
  void keep_slice(const std::string& path, const io::ObjectAttribute& attribute);
  [[nodiscard]] std::map<std::string, BucketId> buckets_by_folder() const;

  Problem problem_;
  std::string cluster_;
  std::uint64_t names_version_ = 0;          // of the bucket metadata that names_ is from
  std::map<BucketId, std::string> names_;    // folders of the buckets that there are
  std::map<BucketId, std::string> made_as_;  // folders as the files have them
  using IdAndName = std::pair<BucketId, std::string>;
  struct SetFiles {
    FoundFile object;  ///< without path
    FoundSet found;
  };
  [[nodiscard]] static std::vector<FoundFile> files_of(const SetFiles& set);
  std::map<IdAndName, std::vector<FoundFile>> files_;
  std::map<IdAndName, std::uint64_t> coded_;  // the set of those of files_ that are kept in slices
  std::map<IdAndName, std::map<std::uint64_t, SetFiles>> slices_;
  std::uint64_t unfinished_ = 0;
};

}  // namespace tarn::cli
