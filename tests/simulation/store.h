#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cluster/state/coordinator.h"
#include "tests/simulation/world.h"

namespace tarn::simulation {

inline constexpr Place kStore = 0;
inline constexpr Time kLeaseTerm = 4 * kSecond;
inline constexpr Time kLeaseMargin = kSecond / 2;

using StatePtr = std::shared_ptr<const cluster::OwnershipState>;

/// A model of the meta store: compare-and-swap at one place, leases, watches whose news come late.
/// Reading may show a state of a while ago, as an etcd member that lags does; changing never acts
/// on one. Its own functions run at its place; who calls them sends a message first.
class Store {
 public:
  /// `targets` places from 1 on, then proxies; all get the news.
  Store(World& world, std::size_t targets, std::size_t places);

  /// The key of a target's status: what lease it goes with, when it was last changed.
  struct LiveKey {
    std::int64_t lease = 0;  ///< the revision at which the target registered; 0: no key
    std::int64_t changed = 0;
  };
  struct Told {
    bool done = false;
    bool fenced = false;  ///< not in the map and not empty
    LiveKey key;          ///< as it is now
  };
  /// A target takes a lease and writes its status, if its key was last changed at revision
  /// `expected`.
  Told enlist(Place target, bool empty, std::int64_t expected, cluster::TargetStatus status);
  /// False: there is no such lease.
  bool renew(Place target, std::int64_t lease);
  /// Another status under the same lease, if the key was last changed at revision `expected`.
  Told tell(Place target, std::int64_t lease, std::int64_t expected, cluster::TargetStatus status);
  bool commit(cluster::CoordinatorStep step);
  /// An operator's change of flags.
  void set_flags(Place target, std::uint64_t set, std::uint64_t clear);
  /// State that this place reads now: perhaps old, surely while its news are stopped.
  [[nodiscard]] StatePtr read(Place place);
  /// As when the member that a node follows lags: it reads the same all the time.
  void stop_news(Place place);
  void resume_news(Place place) { stopped_[place].reset(); }
  [[nodiscard]] StatePtr newest();

  static std::string id(Place target) { return "t" + std::to_string(target); }
  using Watcher = std::function<void(Place, StatePtr)>;
  Watcher watcher;  ///< gets the news, at its place
  std::uint64_t messages = 0;

 private:
  struct Live {
    LiveKey key;
    Time expires = 0;
    cluster::TargetStatus status;
  };
  void changed();
  void expire(Place target, std::int64_t lease);

  World& world_;
  std::size_t targets_;
  std::size_t places_;
  std::int64_t revision_ = 1;
  std::shared_ptr<const cluster::Ownership> map_ = std::make_shared<cluster::Ownership>();
  std::uint64_t settled_ = 0;
  std::vector<Live> live_;
  std::vector<StatePtr> stopped_;  // by place: what it reads instead of the news
  std::deque<StatePtr> states_;    // the last few, newest last
};

}  // namespace tarn::simulation
