// Room on drives: when an eviction begins, for whom, and who waits for it.

#include "target/upstream/space.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/event.h"
#include "common/obs/log.h"
#include "target/coded/slice_holder.h"
#include "target/drive/space_rules.h"
#include "target/replica/away_drive.h"

namespace tarn::target {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kSpaceLookEvery{1};
constexpr std::chrono::minutes kSaveAccessEvery{10};
/// Rest after an eviction that found too little to evict: walks cost a tenth of a drive's time.
constexpr std::chrono::seconds kFruitlessRestMin{10};
constexpr int kFruitlessRestFactor = 9;

}  // namespace

/// A write that found no room.
struct SpaceKeeper::Demand {
  enum class Answer : std::uint8_t { none, made, refused };
  std::uint64_t bytes = 0;
  Answer answer = Answer::none;  // guarded by DriveSpace::mutex
};

/// State of one drive. Its keeper alone takes demands out.
struct SpaceKeeper::DriveSpace {
  Event demanded;  ///< there is a demand more
  Event answered;  ///< or has been one

  Mutex mutex;
  std::vector<std::shared_ptr<Demand>> demands TARN_GUARDED_BY(mutex);

  /// Evictions that found too little are not tried again before, unless buckets or settings change.
  struct Rest {
    BootTime until{0};
    std::uint64_t bmd_version = 0;
    std::uint64_t config_version = 0;
  };
  Rest by_watermark;  // both of the keeper alone
  Rest by_demand;

  [[nodiscard]] bool has_demands() {
    const MutexLock lock(mutex);
    return !demands.empty();
  }
  /// Bytes that are wanted: of the first demand, and of those after it up to `most`.
  [[nodiscard]] std::uint64_t wanted(std::uint64_t most) {
    const MutexLock lock(mutex);
    std::uint64_t sum = 0;
    for (const auto& each : demands) {
      if (sum != 0 && sum + each->bytes > most) break;
      sum += std::max<std::uint64_t>(each->bytes, 1);
    }
    return sum;
  }
  /// Answers the demands that `has_room` allows, each in addition to those before it.
  void answer(const std::function<bool(std::uint64_t bytes)>& has_room) {
    {
      const MutexLock lock(mutex);
      std::uint64_t sum = 0;
      std::erase_if(demands, [&](const std::shared_ptr<Demand>& each) {
        sum += each->bytes;
        if (!has_room(sum)) return false;
        TARN_CHECK(each->answer == Demand::Answer::none);
        each->answer = Demand::Answer::made;
        return true;
      });
    }
    answered.ring();
  }
  void refuse_all() {
    {
      const MutexLock lock(mutex);
      for (const auto& each : demands) {
        TARN_CHECK(each->answer == Demand::Answer::none);
        each->answer = Demand::Answer::refused;
      }
      demands.clear();
    }
    answered.ring();
  }
};

SpaceKeeper::SpaceKeeper(TargetNode& node) : node_(node) {}
SpaceKeeper::~SpaceKeeper() = default;

std::shared_ptr<SpaceKeeper::DriveSpace> SpaceKeeper::space_of(const Drive& drive) {
  const MutexLock lock(mutex_);
  auto& space = drives_[drive.id()];
  if (!space) space = std::make_shared<DriveSpace>();
  return space;
}

bool SpaceKeeper::has_room_for(const Drive& drive, std::uint64_t bytes) const {
  const SpaceLimits limits = node_.store.space_limits();
  return has_room(drive.space(), limits, bytes, limits.out_of_space);
}

Task<void> SpaceKeeper::keep(std::shared_ptr<Drive> drive) {
  const auto space = space_of(*drive);
  EventListener demanded(space->demanded, co_await asio::this_coro::executor);
  auto saved = steady_clock::now();
  while (node_.store.drive_at(drive->path()) == drive) {
    if (drive->in_service() && node_.membership.lease().valid()) {
      co_await look(*drive, *space);
    } else {
      space->refuse_all();
    }
    if (steady_clock::now() - saved >= kSaveAccessEvery) {
      saved = steady_clock::now();
      drive->save_access_times();
    }
    co_await demanded.wait_until(next_tick(kSpaceLookEvery));
  }
  space->refuse_all();
}

/// One look at the drive, and an eviction if it needs one.
Task<void> SpaceKeeper::look(Drive& drive, DriveSpace& space) {
  const auto state = node_.view.state();
  const auto may_try = [&](const DriveSpace::Rest& rest) {
    return node_.clock.boot_time() >= rest.until || rest.bmd_version != state->bmd.version ||
           rest.config_version != state->config.version;
  };
  if (space.has_demands()) co_await answer_demands(drive, space);
  const SpaceLimits limits = node_.store.space_limits();
  if (space.has_demands() || !has_room(drive.space(), limits, 0, limits.high_watermark))
    co_await drop_slices_first(drive, space);
  bool is_demand = space.has_demands();
  const io::Space now = drive.space();
  EvictionGoal goal;
  if (is_demand && may_try(space.by_demand)) {
    const double spread = std::max(limits.high_watermark - limits.low_watermark, 0.0) / 100;
    const auto most = static_cast<std::uint64_t>(static_cast<double>(now.total) * spread);
    goal = eviction_goal_for(now, limits, space.wanted(most));
  }
  if (is_demand && goal.is_empty()) {
    space.refuse_all();
    is_demand = false;
  }
  if (!is_demand && may_try(space.by_watermark))
    goal = eviction_goal(now, limits, EvictionCause::watermark);
  if (goal.is_empty()) co_return;
  const auto turn = co_await turns_.acquire(drive.id());
  const BootTime begun = node_.clock.boot_time();
  EvictionOrder order;
  order.goal = goal;
  order.is_urgent = [&space] { return space.has_demands(); };
  order.on_evicted = [this, &drive, &space](std::uint64_t bytes) {
    if (bytes == 0) space.answer([&](std::uint64_t more) { return has_room_for(drive, more); });
  };
  std::uint64_t objects = 0;
  const Status done = co_await run(drive, std::move(order), objects);
  if (is_demand) {
    co_await answer_demands(drive, space);
    if (!space.has_demands()) co_return;
    space.refuse_all();
  } else if (done && objects > 0) {
    co_return;
  }
  const BootTime took = node_.clock.boot_time() - begun;
  const BootTime pause =
      std::max<BootTime>(kFruitlessRestFactor * took, BootTime(kFruitlessRestMin));
  (is_demand ? space.by_demand : space.by_watermark) = {node_.clock.boot_time() + pause,
                                                        state->bmd.version, state->config.version};
}

/// Slices that are not needed any more go before any object does. Those of all drives go at once,
/// so the keepers of other drives wait here for the room that this makes.
Task<void> SpaceKeeper::drop_slices_first(Drive& drive, DriveSpace& space) {
  const auto turn = co_await turns_.acquire("slices that are not needed");
  co_await drop_slices_now(node_);
  co_await answer_demands(drive, space);
}

/// Grants those that have room by now.
Task<void> SpaceKeeper::answer_demands(Drive& drive, DriveSpace& space) {
  const auto now = co_await drive.measure_space();
  if (now) space.answer([&](std::uint64_t bytes) { return has_room_for(drive, bytes); });
}

Task<Status> SpaceKeeper::run(Drive& drive, EvictionOrder order, std::uint64_t& objects) {
  order.on_evicted = [this, tell = std::move(order.on_evicted)](std::uint64_t bytes) {
    if (bytes > 0) {
      ++counts_.objects;
      counts_.bytes += bytes;
    }
    if (tell) tell(bytes);
  };
  const std::uint64_t wanted = order.goal.bytes;
  const bool is_full = order.goal.protected_bytes > 0;
  Eviction eviction(node_, drive, std::move(order));
  struct Running {
    explicit Running(Counts& its) : counts(its) { ++counts.running; }
    ~Running() { --counts.running; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    Counts& counts;
  };
  const Running running(counts_);
  const Status done = co_await eviction.run();
  objects = eviction.objects();
  const bool is_short = is_full && eviction.bytes() < wanted;
  if (objects > 0 || is_short || !done)
    obs::log("target").log(
        is_short || !done ? spdlog::level::warn : spdlog::level::info,
        "evicted drive={} objects={} bytes={} wanted={} candidates={} used={:.1f}% err={}",
        drive.path(), objects, eviction.bytes(), wanted, eviction.candidate_bytes(),
        drive.used_percent(), done ? "" : done.error().message);
  co_return done;
}

Task<bool> SpaceKeeper::make_room(ObjectName name, std::uint64_t bytes,
                                  steady_clock::time_point until) {
  for (const auto& drive : drives_for(node_.store, name)) {
    const bool made = co_await make_room_on(*drive, bytes, until);
    if (made) co_return true;
  }
  co_return false;
}

Task<bool> SpaceKeeper::make_room_on(Drive& drive, std::uint64_t bytes,
                                     steady_clock::time_point until) {
  // A write that is larger than the drive evicts nothing.
  if (eviction_goal_for(drive.space(), node_.store.space_limits(), bytes).is_empty())
    co_return false;
  const auto space = space_of(drive);
  EventListener answered(space->answered, co_await asio::this_coro::executor);
  const auto demand = std::make_shared<Demand>();
  demand->bytes = bytes;
  {
    const MutexLock lock(space->mutex);
    space->demands.push_back(demand);
  }
  space->demanded.ring();
  while (true) {
    const auto stopped = (co_await asio::this_coro::cancellation_state).cancelled();
    {
      const MutexLock lock(space->mutex);
      if (demand->answer != Demand::Answer::none) co_return demand->answer == Demand::Answer::made;
      if (stopped != asio::cancellation_type::none || steady_clock::now() >= until) {
        std::erase(space->demands, demand);
        co_return false;
      }
    }
    co_await answered.wait_until(until);
  }
}

Task<Status> SpaceKeeper::evict(Drive& drive, const Order& order, api::CopyProgress& progress,
                                std::stop_token stop) {
  const auto turn = co_await turns_.acquire(drive.id());
  CO_TRY(const io::Space now, co_await drive.measure_space());
  EvictionOrder its;
  its.goal = eviction_goal(now, node_.store.space_limits(), EvictionCause::order);
  if (its.goal.is_empty()) co_return Status();
  its.only = order.only;
  its.ignore_switch = order.ignore_switch;
  its.is_urgent = [] { return true; };
  its.on_evicted = [&progress](std::uint64_t bytes) {
    if (bytes > 0) progress.add(bytes);
  };
  its.stop = std::move(stop);
  std::uint64_t objects = 0;
  co_return co_await run(drive, std::move(its), objects);
}

void export_space(obs::Metrics& metrics, const SpaceKeeper& keeper) {
  auto& objects = metrics.counter("tarn_evicted_objects_total",
                                  "objects that were evicted to make room, not those by name");
  auto& bytes = metrics.counter("tarn_evicted_bytes_total", "bytes that this freed");
  auto& running = metrics.gauge("tarn_evictions_running", "drives that are being evicted from");
  metrics.before_scrape([&objects, &bytes, &running, &keeper] {
    const SpaceKeeper::Counts& counts = keeper.counts();
    objects.Increment(static_cast<double>(counts.objects.load()) - objects.Value());
    bytes.Increment(static_cast<double>(counts.bytes.load()) - bytes.Value());
    running.Set(static_cast<double>(counts.running.load()));
  });
}

}  // namespace tarn::target
