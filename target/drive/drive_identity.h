#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"
#include "common/io/file_system.h"
#include "target/drive/drive_places.h"

namespace tarn::target {

/// The format of a drive that may hold records of coded objects and slices; other drives have 1.
/// Nothing sets it back.
inline constexpr int kSlicesFormat = 2;

/// `.tarn/drive.json`: whose drive this is.
struct DriveIdentity {
  int format = 1;
  std::string cluster;  ///< uuid of the cluster
  std::string drive;    ///< uuid of the drive
  std::string node;     ///< id of the target
  std::string path;     ///< mount point when it was last used
  /// All drives of the target by uuid, this included. Their sizes are those by which they are
  /// placed (placed_size).
  std::map<std::string, DrivePlace> siblings;

  auto operator<=>(const DriveIdentity&) const = default;
};
void to_json(nlohmann::json& out, const DriveIdentity& identity);
void from_json(const nlohmann::json& in, DriveIdentity& identity);

/// Path of the identity on a drive.
inline constexpr const char* kIdentityFile = ".tarn/drive.json";

/// Returns nothing when the drive has no identity. corrupt when the file cannot be understood.
[[nodiscard]] Result<std::optional<DriveIdentity>> read_identity(io::FileSystem& files);
/// Durable when it returns, as are the directories that every drive has. Cut off anywhere, it
/// leaves a drive that is empty or has its identity.
Status write_identity(io::FileSystem& files, const DriveIdentity& identity);

/// Writes `identity` in place of what is there, which must be of the same drive (else unavailable),
/// with the higher of the two formats.
Status rewrite_identity(io::FileSystem& files, DriveIdentity identity);

/// A drive as the target finds it before it opens it.
struct FoundDrive {
  std::string path;
  std::optional<DriveIdentity> identity;
  bool has_files = false;    ///< something else than an empty directory (lost+found does not count)
  std::uint64_t bytes = 0;   ///< size of its file system; 0: that is not known
  std::string unreadable{};  ///< reason why it cannot be opened; empty: it can
};

/// Plan for the drives: decided from what was found alone.
struct DrivePlan {
  struct Use {
    std::string path;
    DriveIdentity identity;  ///< to be written: siblings and path are up to date
    bool fresh = false;      ///< has no identity yet
    bool may_hold_misplaced =
        false;  ///< the set of drives, a path or a size changed: names may lie elsewhere
  };
  std::string node;  ///< id of the target; empty: a new target
  std::vector<Use> use;
  /// Known drives that are not there, whose directory cannot be opened, or whose place holds an
  /// empty file system: path -> why. The names that live there are answered 503.
  std::map<std::string, std::string> missing;
};

/// Plans the drives of a start. Pure. `replace`: paths whose old drive the operator gives up for
/// lost. Errors (conflict): a drive of another cluster or another target, the same drive twice, a
/// directory that holds other files; not_found: a directory that cannot be opened and was no drive
/// of this target.
[[nodiscard]] Result<DrivePlan> plan_drives(const std::vector<FoundDrive>& found,
                                            const std::string& cluster,
                                            const std::vector<std::string>& replace,
                                            const std::string& new_node_id);

/// Looks at a drive for plan_drives.
[[nodiscard]] Result<FoundDrive> inspect_drive(io::FileSystem& files);

/// Tries on the file system what Tarn needs: user attributes of 4,000 bytes, fallocate, fsync of
/// directories. unsupported with the reason otherwise.
Status probe_file_system(io::FileSystem& files);

}  // namespace tarn::target
