#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/ids.h"

namespace tarn::target {

/// The limit, or the work of clients, that makes a rebuild wait.
enum class HeldBy : std::uint8_t {
  nothing,
  rebuild_max,  ///< the setting rebuild.bandwidth_max
  all_moves,    ///< the setting rebalance.bandwidth
  clients       ///< clients wait for drives, and rebuild.bandwidth_min is used up
};

/// A reason why an object is not whole now.
struct WaitReason {
  enum class Why : std::uint8_t {
    waits_for_node,   ///< `where` is a target that is down, or does not answer
    waits_for_drive,  ///< `where` is a target with a drive that may be back
    no_room,          ///< `where` is a target without room; empty: no target is left that takes it
    too_few_slices,   ///< none that waits would make them enough: the object is lost
    failed,           ///< an error, at the target `where` if that is not empty
    limit,            ///< `where` is a setting
    clients,          ///< they are served first
    stopped           ///< by an operator
  };
  Why why = Why::failed;
  std::string where = {};

  auto operator<=>(const WaitReason&) const = default;
};
[[nodiscard]] const char* to_string(WaitReason::Why why);
/// Returns the reason that `by` stands for, which is not HeldBy::nothing.
[[nodiscard]] WaitReason reason_of(HeldBy by);

/// The reasons of many objects, with how many each holds up. One object may have several. A value.
class WaitReasons {
 public:
  void add(WaitReason reason, std::uint64_t objects = 1);
  /// A failure, of which the first message is kept.
  void add_failed(std::string where, std::string error, std::uint64_t objects = 1);
  void add(const WaitReasons& other);
  [[nodiscard]] bool empty() const { return objects_.empty(); }
  [[nodiscard]] const std::map<WaitReason, std::uint64_t>& objects() const { return objects_; }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  std::map<WaitReason, std::uint64_t> objects_;
  std::string error_;  // the first
};
/// [{"why":"waits_for_node","node":"ID","objects":5}, {"why":"limit","setting":"..","objects":3},
/// {"why":"failed","error":"..","objects":1}]
void to_json(nlohmann::json& out, const WaitReasons& reasons);

/// The reasons of each bucket.
using BucketWaits = std::map<BucketId, WaitReasons>;

}  // namespace tarn::target
