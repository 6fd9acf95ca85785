#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket.h"
#include "common/api/copy_counts.h"
#include "common/api/first_names.h"
#include "common/api/slice_counts.h"
#include "common/api/uncounted.h"
#include "common/base/error.h"
#include "common/base/ids.h"

namespace tarn::proxy {

// Redundancy of a bucket, put together from the answers of its targets. Pure.

/// Numbers of objects of a bucket by redundancy, and the losses that the bucket survives.
struct Redundancy {
  api::Bucket bucket;
  std::uint64_t wanted = 1;  ///< copies of each object, or of a coded one's record
  api::CopyCounts counts;
  api::FirstNames lost;
  std::optional<api::StateList> list = {};  ///< the objects in one state, if they are wanted
  /// Number of drives, or nodes, whichever they are, that may go at once without a loss; none
  /// without objects.
  std::optional<std::uint64_t> survives_drives;
  std::optional<std::uint64_t> survives_nodes;
  /// The same of zones; none also where placement uses no zones.
  std::optional<std::uint64_t> survives_zones = {};
  std::optional<std::uint64_t> coded;  ///< objects with slices; none if there never were any
  /// Slices that no record names, and those that the owner could not judge (api::SliceCounts).
  api::SliceSum unnamed;
  api::SliceSum unjudged;
  std::set<std::string> targets_away;  ///< objects there are not counted
  /// Gaps in the counts of targets that were asked, by id.
  std::map<std::string, api::Uncounted> uncounted;
  /// False while a drive may be back soon, or an object may lie only on drives that are away.
  bool all_seen = true;

  /// True if no object can be missing from the counts.
  [[nodiscard]] bool complete() const { return targets_away.empty() && all_seen; }
  /// Sets `all_seen` and the number of drives that are away by `uncounted`. `shows_all`, called
  /// with the ids of targets that may not show all that they hold: true if other targets show it.
  void judge(const std::function<bool(const std::set<std::string>&)>& shows_all);
  /// Lowers each of the three to at most these.
  void survives(std::optional<std::uint64_t> drives, std::optional<std::uint64_t> nodes,
                std::optional<std::uint64_t> zones = {});
};
void to_json(nlohmann::json& out, const Redundancy& counted);

/// Answers of targets about the names of a bucket after one name.
class NamePage {
 public:
  struct Copies {
    Generation newest;
    bool known = false;       ///< false: no target has sent it yet
    bool live = false;        ///< an object, not a tombstone
    std::uint64_t nodes = 0;  ///< with the newest version, not known to be bad
    std::uint64_t drives = 0;
    std::uint64_t bytes = 0;           ///< of the object
    bool at_owner = false;             ///< true if the owner of the name has the newest version
    std::set<std::string> zones = {};  ///< of these nodes, where placement uses zones
    std::uint64_t kept = 0;            ///< of `drives`, those of targets that are not to stop
  };

  /// `zones`: of targets, by id (cluster::zones_by_id). The page also counts the copies that stay
  /// while the targets `stops` (ids) are away.
  explicit NamePage(std::map<std::string, std::string> zones = {}, std::set<std::string> stops = {})
      : zones_(std::move(zones)), stops_(std::move(stops)) {}

  /// A target's answer to list-moving (target/request/list_moving.h); internal when it is none.
  Status take(const std::string& target, const std::string& body);
  /// The last name up to which all targets have sent all; empty: no target has any.
  [[nodiscard]] std::string last() const;
  /// True if a target may have names after last().
  [[nodiscard]] bool more() const { return bound_.has_value(); }
  /// Also names after last(), that some targets may not have sent yet.
  [[nodiscard]] const std::map<std::string, Copies>& names() const { return names_; }
  /// True if placement uses zones.
  [[nodiscard]] bool has_zones() const { return !zones_.empty(); }
  /// The gaps in this page, by the target's id: drives that are out of service.
  [[nodiscard]] const std::map<std::string, api::Uncounted>& uncounted() const {
    return uncounted_;
  }

 private:
  void take_record(const nlohmann::json& record, const std::string& zone, bool stays);

  std::map<std::string, std::string> zones_;
  std::set<std::string> stops_;
  std::map<std::string, Copies> names_;
  std::map<std::string, api::Uncounted> uncounted_;
  std::optional<std::string> bound_;
};

/// Counts the objects of a page up to its last(). `slices`: of those among them that are coded.
/// While drives are away, an object of a coded bucket whose owner lacks the newest record is at
/// risk: its slices were counted by no target.
void add_page(const NamePage& page, const api::SliceCounts& slices, Redundancy& into);

/// Names of a page, up to its last(), of objects that are readable now and would not be without the
/// targets that are to stop. `coded`: the bucket is, or was, coded; `slices` then counts its coded
/// objects without these targets. An object counts whose slices were counted by no target.
[[nodiscard]] std::set<std::string> unreadable_names(const NamePage& page, bool coded,
                                                     const api::SliceCounts& slices);

}  // namespace tarn::proxy
