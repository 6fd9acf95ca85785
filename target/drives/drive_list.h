#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace tarn::target {

/// Orders of operators about the drives of a target while it ran, beside --drive: paths. Kept in
/// `drives.json` of the target's directory:
///
///   {"attached":[..],"detached":[..],"disabled":[..],"labels":{PATH:LABEL},
///    "leaving":{PATH:"detach" or "disable"},"gone":{UUID:{"path":..,"since":SECONDS}}}
///
/// and `set.json`: {"drive_set":N}.
struct DriveList {
  std::set<std::string> attached;             ///< used although no --drive names it
  std::set<std::string> detached;             ///< not used, even if --drive names it
  std::set<std::string> disabled;             ///< out of service until they are enabled
  std::map<std::string, std::string> labels;  ///< by path; shown, and nothing acts upon them
  /// Drives whose objects move to the other drives, and what is done with them then. One that is
  /// disabled by now stays here: it is empty, and no place of names until it is enabled.
  enum class Then : std::uint8_t { detach, disable };
  std::map<std::string, Then> leaving;
  /// One that was detached, and has not been attached since.
  struct Gone {
    std::string path;        ///< former path
    std::int64_t since = 0;  ///< time when it went: seconds since 1970
    auto operator<=>(const Gone&) const = default;
  };
  std::map<std::string, Gone> gone;  ///< by uuid
  /// Random number, a new one each time drives went or came in a way that may lose objects, or
  /// bring deleted ones back (cluster::TargetStatus). 0: none was chosen yet.
  std::uint64_t drive_set = 0;

  bool operator==(const DriveList&) const = default;

  /// The drives to open, where `flags` are those of --drive.
  [[nodiscard]] std::vector<std::string> apply_to(const std::vector<std::string>& flags) const;
  /// True if the drive `uuid` went before `oldest` (seconds since 1970): it may come back only
  /// empty. Deletes before `oldest` are no longer known.
  [[nodiscard]] bool is_fenced(const std::string& uuid, std::int64_t oldest) const;
  /// No drive that may come back as it is is out of service.
  [[nodiscard]] bool all_in_service(std::int64_t oldest) const;
};

/// invalid_argument for what is no label: 1 to 32 of A-Z a-z 0-9 . _ -
Status check_drive_label(const std::string& label);

/// A number for DriveList::drive_set: random, above 0, and short, since the map has one for each
/// target.
[[nodiscard]] std::uint64_t other_drive_set();

/// corrupt, naming the file, when it cannot be understood.
[[nodiscard]] Result<DriveList> load_drive_list(const std::filesystem::path& directory);
/// Synced; first the number, then, in one step, the rest.
Status save_drive_list(const std::filesystem::path& directory, const DriveList& list);
/// The number alone.
Status save_drive_set(const std::filesystem::path& directory, std::uint64_t drive_set);

}  // namespace tarn::target
