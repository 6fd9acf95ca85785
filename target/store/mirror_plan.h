#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"

namespace tarn::target {

// Decisions about the copies of one name, from what the drives of this target report of it
// (docs/decisions/013). Pure.

/// Trust in a drive.
enum class Standing : std::uint8_t {
  good,   ///< took part in all changes of mirrored names
  stale,  ///< away during a change: its records may be stale
  away    ///< cannot be asked now
};

/// A drive's word on a name.
struct CopyView {
  Standing standing = Standing::good;
  struct Record {
    Generation generation;
    bool live = true;  ///< an object, not a tombstone
  };
  std::optional<Record> record;
  /// True if it may take a new copy: usable, with room.
  bool takes = true;
  /// All of it moves elsewhere: its copy does not count among those that are wanted.
  bool leaves = false;
};
/// In the order in which placement prefers the drives.
using CopyViews = std::vector<CopyView>;

struct CopyVerdict {
  enum class Kind : std::uint8_t {
    none,         ///< the name does not exist
    found,        ///< the newest version is the one of `holders`
    unavailable,  ///< a drive that may hold a newer version, or the only one, is away
  };
  Kind kind = Kind::none;
  Generation newest;                 ///< of `found`, and of the tombstone of `none` if there is one
  std::vector<std::size_t> holders;  ///< drives with the newest record, best first
  std::vector<std::size_t> older;    ///< drives with an older one
};

/// Decides which version counts. The newest record that can be seen counts when a drive in good
/// standing has it: such a drive never keeps an older version than another. A record that only
/// stale drives have counts when no other drive is away. A name that is not seen does not exist
/// when fewer drives are away than copies it would have: `surely` so many, if it is there at all.
[[nodiscard]] CopyVerdict judge_copies(const CopyViews& views, std::size_t surely);

struct CopyPlan {
  std::vector<std::size_t> add;     ///< drives for new copies, in this order
  std::vector<std::size_t> remove;  ///< drives with copies too many
  std::size_t missing = 0;          ///< copies for which there is no drive
};
/// Plan that makes `wanted` copies of a name that was found and whose older versions are gone.
/// Copies stay where they are; where some are too many, those on the least preferred drives go.
[[nodiscard]] CopyPlan plan_copies(const CopyViews& views, const CopyVerdict& verdict,
                                   std::size_t wanted);

/// Number of copies that must be durable before a write is acknowledged: all but one, at least one.
[[nodiscard]] constexpr std::size_t copies_required(std::size_t wanted) {
  return wanted > 1 ? wanted - 1 : 1;
}

}  // namespace tarn::target
