#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/cluster/place/hrw.h"

namespace tarn::proxy {

// Choice of the replica to which a reader of a name with copies on nodes is sent
// (docs/decisions/014). Proxies do not talk about it: each goes by the targets' reports of their
// drives once a second.

/// Last report of a target about its drives. Thread-safe.
class LoadReport {
 public:
  struct OfDrive {
    std::uint64_t digest = 0;  ///< placement_digest of its path
    /// Readers, and work that waits; none: no reader is served from there now.
    std::optional<std::uint32_t> work;
    double weight = 1.0;  ///< its share of the names (cluster::Candidate)
  };

  LoadReport() = default;
  explicit LoadReport(std::span<const OfDrive> drives);

  /// The drive on which the target has a name. `sent`: readers that this proxy has sent there
  /// since.
  struct Load {
    bool serves = true;
    std::uint32_t work = 0;
    std::uint32_t sent = 0;
  };
  /// One without a report counts as idle.
  [[nodiscard]] Load of(std::uint64_t name_digest) const;
  void note_sent(std::uint64_t name_digest) const;

 private:
  [[nodiscard]] std::optional<std::size_t> drive_of(std::uint64_t name_digest) const;

  std::vector<cluster::Candidate> drives_;
  std::vector<std::optional<std::uint32_t>> work_;
  mutable std::vector<std::atomic<std::uint32_t>> sent_;
};

/// One line of a heartbeat (suspects.h).
struct Heartbeat {
  bool ready = false;
  std::vector<LoadReport::OfDrive> drives;
};
/// The report; none for a line without one.
[[nodiscard]] std::optional<Heartbeat> parse_heartbeat(std::string_view line);

/// Index of the replica to read from in `replicas`, the owner's first. The first that serves, as
/// long as its drive has little to do: its objects in memory are of use then. Otherwise by lot,
/// each with a chance in inverse proportion to the work of its drive: so readers do not all run to
/// the one that was idle a second ago, and proxies that know the same share them out. `draw` is a
/// random number. `replicas` is not empty. `others_gather`: only the first has the object as it is,
/// and any other asks k targets for slices of it. Then another one has a chance only while the
/// first has kGatherAbove times as much to do.
[[nodiscard]] std::size_t least_busy(std::span<const LoadReport::Load> replicas, std::uint64_t draw,
                                     bool others_gather = false);
inline constexpr std::uint64_t kGatherAbove = 4;

}  // namespace tarn::proxy
