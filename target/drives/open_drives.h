#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/state/state.h"
#include "target/drive/drive.h"
#include "target/drive/drive_identity.h"
#include "target/drives/drive_list.h"
#include "target/drives/options.h"
#include "target/store/mirror_ledger.h"

namespace tarn::target {

/// The drives of a start: opened, and those that are missing.
struct OpenedDrives {
  std::string node_id;
  std::vector<std::unique_ptr<Drive>> drives;
  std::map<std::string, std::string> missing;
  using Identities = std::map<std::string, DriveIdentity>;
  Identities identities;                           ///< of `drives`, by path
  std::map<std::string, std::string> missing_ids;  ///< path -> uuid, of all that are known
  MirrorLedger ledger;                             ///< notes of all places
  std::map<std::string, EvictedBuckets> evicted;   ///< from `missing`, by path
  std::uint64_t drive_set = 0;                     ///< DriveList::drive_set, as it is from now on
};

/// Ledger in the directory of a node; nothing when it has no such file.
[[nodiscard]] Result<std::optional<MirrorLedger>> node_ledger(const std::string& directory);
/// Brings that together with what a drive remembers; one without such a file does not count.
Status read_ledger(io::FileSystem& files, MirrorLedger& ledger);
inline constexpr const char* kLedgerOfDrive = ".tarn/mirror.json";

/// Options and memory that all drives of a target share while they are opened.
struct DriveOpener {
  const Options& options;
  const IndexMemory& memory;
  std::shared_ptr<CachePolicy> cache_policy;

  /// Opens one as `use` names it: its identity is written, its index reconciled with its files.
  /// `evicted`: what was evicted from it while it was away, which goes. Blocks.
  [[nodiscard]] Result<std::unique_ptr<Drive>> open(std::unique_ptr<io::FileSystem> files,
                                                    const DrivePlan::Use& use,
                                                    const cluster::ClusterState& state,
                                                    EvictedBuckets evicted) const;
  /// Opens those of the command line and of `list`. A drive that is disabled and cannot be opened
  /// is missing.
  [[nodiscard]] Result<OpenedDrives> open_all(const DriveList& list,
                                              const cluster::ClusterState& state) const;
};

}  // namespace tarn::target
