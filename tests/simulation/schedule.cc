#include "tests/simulation/schedule.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/history.h"
#include "tests/simulation/proxy.h"
#include "tests/simulation/store.h"
#include "tests/simulation/target.h"
#include "tests/simulation/world.h"

namespace tarn::simulation {
namespace {

constexpr std::size_t kProxies = 2;
constexpr Time kFaultsBegin = 3 * kSecond;
constexpr Time kConvergeMax = 60 * kSecond;

class Schedule {
 public:
  Schedule(std::uint64_t seed, bool trace)
      : dice_(seed ^ 0x5eed),
        targets_(static_cast<std::size_t>(dice_.between(2, 5))),
        world_(seed, 1 + targets_ + kProxies, trace),
        store_(world_, targets_, 1 + targets_ + kProxies),
        nodes_{world_, store_, {}, {}} {
    const std::int64_t names = dice_.between(1, 4);
    for (std::int64_t i = 0; i < names; ++i) {
      nodes_.names.push_back("ais/@#/data/" + std::to_string(dice_.up_to(999)) + "-" +
                             std::to_string(i));
      nodes_.digests.push_back(cluster::placement_digest(nodes_.names.back()));
    }
    nodes_.acknowledged.resize(nodes_.names.size());
    history_.resize(nodes_.names.size());
    for (Place place = 1; place <= targets_; ++place)
      nodes_.targets.push_back(std::make_unique<Target>(nodes_, place));
    for (std::size_t i = 0; i < kProxies; ++i)
      proxies_.push_back(std::make_unique<Proxy>(nodes_, 1 + targets_ + i, history_));
    store_.watcher = [this](Place place, const StatePtr& state) {
      if (place <= targets_) {
        nodes_.targets[place - 1]->learn(state);
      } else {
        proxies_[place - 1 - targets_]->learn(state);
      }
    };
  }

  Outcome run() {
    const bool fencing = dice_.one_in(8);
    for (auto& proxy : proxies_) {
      proxy->limits.out_after = std::chrono::seconds(8);
      proxy->limits.tombstone_keep = std::chrono::seconds(fencing ? 12 : 100'000);
      proxy->may_fence = [this](const std::string& id) { return holds_nothing_newest(id); };
      proxy->boot();
    }
    start_targets();
    const Time faults_end = plan_faults(fencing);
    for (int client = 0; client < 4; ++client)
      proxies_[static_cast<std::size_t>(client) % kProxies]->run_client(
          static_cast<int>(faults_end / (2 * kSecond)));
    outcome_.events += world_.run_until(faults_end);
    if (nodes_.violation.empty()) make_peace();
    judge();
    return outcome_;
  }

 private:
  void fault(Time at, std::string what, World::Run run) {
    faults_ += fmt::format("    {:8.3f} {}\n", static_cast<double>(at) / kSecond, what);
    world_.at(at, [this, what = std::move(what), run = std::move(run)] {
      world_.trace("FAULT {}", what);
      run();
    });
  }

  void start_targets() {
    // Some join only later.
    const std::size_t first =
        std::max<std::size_t>(1, targets_ - static_cast<std::size_t>(dice_.up_to(2)));
    for (Place place = 1; place <= targets_; ++place) {
      world_.drift(place, 0.9 + 0.02 * static_cast<double>(dice_.up_to(10)));
      const Time at = place <= first ? dice_.up_to(kSecond) : dice_.between(4, 20) * kSecond;
      world_.at(at, [this, place] {
        if (!world_.up(place)) nodes_.targets[place - 1]->boot(0);
      });
    }
  }

  /// The end of the last fault.
  Time plan_faults(bool fencing) {
    if (dice_.one_in(2)) world_.disturb(dice_.between(5, 60), dice_.up_to(6 * kSecond));
    Time end = 8 * kSecond;
    const std::int64_t count = dice_.between(1, 7);
    for (std::int64_t i = 0; i < count; ++i)
      end = std::max(end, plan_fault(dice_.between(kFaultsBegin, 22 * kSecond)));
    if (fencing) {
      const Place target = any_target();
      const Time begin = dice_.between(kFaultsBegin, 8 * kSecond);
      plan_crash(target, begin, begin + 25 * kSecond, 0);
      end = std::max(end, begin + 26 * kSecond);
    }
    return end + kSecond;
  }

  Place any_target() {
    return 1 + static_cast<Place>(dice_.up_to(static_cast<std::int64_t>(targets_) - 1));
  }
  Place any_place() {
    return static_cast<Place>(dice_.up_to(static_cast<std::int64_t>(targets_ + kProxies)));
  }
  Time some_time() {
    return dice_.one_in(3) ? dice_.up_to(kSecond) : dice_.between(kSecond, 10 * kSecond);
  }

  void plan_crash(Place target, Time begin, Time end, unsigned missing) {
    fault(
        begin,
        fmt::format("{} dies until {:.3f}{}", Store::id(target), static_cast<double>(end) / kSecond,
                    missing == 0 ? "" : ", then starts without a drive"),
        [this, target] {
          if (world_.up(target)) nodes_.targets[target - 1]->crash();
        });
    world_.at(end, [this, target, missing] {
      if (!world_.up(target)) nodes_.targets[target - 1]->boot(missing);
    });
  }

  void plan_pause(Place place, Time begin, Time end) {
    const std::string who = place == kStore     ? "the store"
                            : place <= targets_ ? Store::id(place)
                                                : "a proxy";
    fault(begin, fmt::format("{} is paused until {:.3f}", who, static_cast<double>(end) / kSecond),
          [this, place] { world_.pause(place); });
    world_.at(end, [this, place] { world_.go_on(place); });
  }

  void plan_cut(Place a, Place b, Time begin, Time end, bool both) {
    fault(begin,
          fmt::format("messages from place {} to {}{} are lost until {:.3f}", a, b,
                      both ? " and back" : "", static_cast<double>(end) / kSecond),
          [this, a, b, both] {
            world_.cut(a, b, true);
            if (both) world_.cut(b, a, true);
          });
    world_.at(end, [this, a, b] {
      world_.cut(a, b, false);
      world_.cut(b, a, false);
    });
  }

  Place any_proxy() { return 1 + targets_ + static_cast<Place>(dice_.up_to(kProxies - 1)); }

  /// Both follow a member of the store that lags.
  void plan_old_news(Place target, Place proxy, Time begin, Time end) {
    fault(begin,
          fmt::format("{} and a proxy get no news until {:.3f}", Store::id(target),
                      static_cast<double>(end) / kSecond),
          [this, target, proxy] {
            store_.stop_news(target);
            store_.stop_news(proxy);
          });
    world_.at(end, [this, target, proxy] {
      store_.resume_news(target);
      store_.resume_news(proxy);
    });
  }

  /// A target and a proxy lose the store, and only them, after a while of late answers.
  Time plan_isolation(Place target, Place proxy, Time begin) {
    const Time late = dice_.up_to(4 * kSecond);
    const Time end = begin + dice_.between(4, 12) * kSecond;
    fault(begin - late,
          fmt::format("the store's answers to {} are late by {:.3f}", Store::id(target),
                      static_cast<double>(late) / kSecond),
          [this, target, late] { world_.slow(kStore, target, late); });
    if (dice_.one_in(2))
      fault(begin, fmt::format("the drives of {} hang", Store::id(target)),
            [this, target, until = end + dice_.between(-2 * kSecond, 4 * kSecond)] {
              nodes_.targets[target - 1]->hang_drives(until);
            });
    if (dice_.one_in(4)) plan_pause(target, begin, begin + dice_.up_to(8 * kSecond));
    fault(begin,
          fmt::format("{} and a proxy cannot reach the store until {:.3f}", Store::id(target),
                      static_cast<double>(end) / kSecond),
          [this, target, proxy] {
            for (const Place place : {target, proxy}) world_.cut(place, kStore, true);
            store_.stop_news(target);
            store_.stop_news(proxy);
          });
    world_.at(end, [this, target, proxy, late_news = dice_.up_to(2 * kSecond)] {
      for (const Place place : {target, proxy}) world_.cut(place, kStore, false);
      world_.slow(kStore, target, 0);
      world_.at(world_.now() + late_news, [this, target, proxy] {
        store_.resume_news(target);
        store_.resume_news(proxy);
      });
    });
    return end + 2 * kSecond;
  }

  void plan_flag(Place target, std::uint64_t flag, Time begin, Time end) {
    fault(begin,
          fmt::format("flag {} of {} is set{}", flag, Store::id(target),
                      flag == cluster::kMaintenance
                          ? fmt::format(" until {:.3f}", static_cast<double>(end) / kSecond)
                          : ""),
          [this, target, flag] { store_.set_flags(target, flag, 0); });
    if (flag == cluster::kMaintenance)
      world_.at(end, [this, target, flag] { store_.set_flags(target, 0, flag); });
  }

  Time plan_fault(Time begin) {
    const Time end = begin + some_time();
    const Place target = any_target();
    switch (dice_.up_to(13)) {
      case 0:
      case 1: plan_crash(target, begin, end, 0); break;
      case 2: plan_crash(target, begin, end, static_cast<unsigned>(1 + dice_.up_to(1))); break;
      case 3: plan_pause(target, begin, end); break;
      case 4: plan_pause(any_place(), begin, end); break;
      case 5: plan_cut(target, kStore, begin, end, dice_.one_in(2)); break;
      case 6: plan_cut(kStore, target, begin, end, false); break;
      case 7: plan_cut(target, any_place(), begin, end, dice_.one_in(2)); break;
      case 8:
        plan_flag(target, dice_.one_in(3) ? cluster::kDecommission : cluster::kMaintenance, begin,
                  end);
        break;
      case 9:
      case 10: plan_old_news(target, any_proxy(), begin, end); break;
      case 11:
      case 12: return plan_isolation(target, any_proxy(), begin);
      default:
        fault(begin, fmt::format("the clock of {} jumps, a proxy forgets", Store::id(target)),
              [this, target, by = some_time(), proxy = dice_.up_to(kProxies - 1)] {
                world_.jump(target, by);
                proxies_[static_cast<std::size_t>(proxy)]->forget();
              });
    }
    return end;
  }

  /// True if other targets have every record of this one, or a newer one. An operator must know
  /// that before a target is given up; here the model knows it.
  [[nodiscard]] bool holds_nothing_newest(const std::string& id) const {
    const Target& wanted = nodes_.target(id);
    for (std::size_t name = 0; name < nodes_.names.size(); ++name) {
      const auto record = wanted.on_disk(name);
      if (!record) continue;
      const bool elsewhere =
          std::any_of(nodes_.targets.begin(), nodes_.targets.end(), [&](const auto& other) {
            const auto theirs = other->on_disk(name);
            return other->place() != wanted.place() && theirs &&
                   theirs->generation >= record->generation;
          });
      if (!elsewhere) return false;
    }
    return true;
  }

  void make_peace() {
    world_.trace("peace");
    world_.heal();
    for (Place place = 1; place < 1 + targets_ + kProxies; ++place) store_.resume_news(place);
    for (Place place = 0; place < 1 + targets_ + kProxies; ++place) world_.go_on(place);
    for (auto& target : nodes_.targets) {
      if (world_.up(target->place())) target->crash();
      target->boot(0);
    }
    const Time until = world_.now() + kConvergeMax;
    while (world_.now() < until && !converged())
      outcome_.events += world_.run_until(world_.now() + kSecond);
    if (!converged()) {
      nodes_.violated("the cluster does not converge: " + why_not());
      return;
    }
    proxies_.front()->read_all();
    const Time read_until = world_.now() + kConvergeMax;
    while (world_.now() < read_until && proxies_.front()->unread() > 0)
      outcome_.events += world_.run_until(world_.now() + 300 * kMillisecond);
    if (proxies_.front()->unread() > 0) nodes_.violated("not all names can be read at the end");
  }

  [[nodiscard]] std::string why_not() {
    const auto state = store_.newest();
    const auto& map = *state->map;
    if (state->settled < map.version) return "not settled";
    if (!map.past.empty()) return "past epochs are left";
    for (const auto& member : map.members)
      if (!member.owns() && (member.flags & cluster::kMaintenance) == 0)
        return member.id + " has flags " + std::to_string(member.flags);
    for (const auto& target : nodes_.targets)
      for (std::size_t name = 0; name < nodes_.names.size(); ++name) {
        const auto record = target->on_disk(name);
        if (!record) continue;
        if (record->value == 0) return "a tombstone is left";
        if (cluster::writer_of(map, nodes_.digests[name]) != Store::id(target->place()))
          return "a record is misplaced";
      }
    return "";
  }
  [[nodiscard]] bool converged() { return why_not().empty(); }

  void judge() {
    for (std::size_t name = 0; name < history_.size() && nodes_.violation.empty(); ++name) {
      outcome_.operations += history_[name].size();
      if (linearizable(history_[name])) continue;
      nodes_.violated(nodes_.names[name] + " is not a linearizable register");
      outcome_.details = describe(history_[name]);
    }
    outcome_.violation = nodes_.violation;
    if (!outcome_.violation.empty()) outcome_.details = faults_ + outcome_.details;
    outcome_.map_versions = store_.newest()->map->version;
    for (const auto& target : nodes_.targets) outcome_.copies += target->copies_taken;
  }

  Random dice_;
  std::size_t targets_;
  World world_;
  Store store_;
  Nodes nodes_;
  std::vector<std::vector<Operation>> history_;
  std::vector<std::unique_ptr<Proxy>> proxies_;
  std::string faults_;
  Outcome outcome_;
};

}  // namespace

Outcome run_schedule(std::uint64_t seed, bool trace) { return Schedule(seed, trace).run(); }

}  // namespace tarn::simulation
