#include "target/repair/keep_coded.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/base/check.h"
#include "common/base/event.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/coded/slice_holder.h"
#include "target/repair/coded_repair.h"
#include "target/repair/coded_walk.h"
#include "target/repair/drives_here.h"
#include "target/repair/repair_queue.h"
#include "target/repair/unnamed_slices.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kKeepCodedLookEvery = 500ms;
constexpr auto kKeepCodedEveryDay = 24h;
constexpr auto kKeepCodedAgainFirst = 2s;
constexpr auto kKeepCodedAgainMost = 60s;
constexpr std::size_t kKeepCodedAtOnce = 4;
/// Names that are remembered to be repaired; the other names are found by the next pass.
constexpr std::size_t kKeepCodedNamesMax = 100'000;

struct KeepCodedFound {
  RepairQueue queue{kKeepCodedNamesMax};
  std::size_t objects = 0;
  std::uint64_t incomplete = 0;  ///< objects with slices missing that cannot be made now
  BucketWaits waits;             ///< of those
  bool again = false;            ///< something can only be done later
};

void note(const TargetNode& node, const std::vector<CodedObject>& objects, KeepCodedFound& found) {
  for (const CodedObject& object : objects) {
    ++found.objects;
    const Repair repair = repair_of(node, object);
    found.again = found.again || repair.waiting > 0 || (repair.empty() && repair.missing > 0);
    const WaitReasons waits = waits_of(object, repair);
    if (!waits.empty()) {
      ++found.incomplete;
      found.waits[object.name.bucket].add(waits);
    }
    if (repair.empty() && !is_to_be_fetched(node, object.name, repair)) continue;
    found.queue.add(danger_of(repair),
                    {object.name, repair.missing, bytes_of(object.record, repair)});
  }
}

Task<Result<KeepCodedFound>> look_through(TargetNode& node) {
  KeepCodedFound found;
  const auto state = node.view.state();
  for (const auto& [id, bucket] : state->bmd.buckets) {
    if (!api::was_ever_coded(bucket.props)) continue;
    CO_TRY_OK(co_await walk_coded(node, bucket, [&](const std::vector<CodedObject>& objects) {
      note(node, objects, found);
    }));
  }
  co_return found;
}

/// Targets of which drives are known to be lost, and which: when it changes, something may be
/// missing.
std::string losses(const cluster::OwnershipState& state) {
  std::string out;
  for (const cluster::TargetStatus& status : state.live)
    if (status.lost_drives != 0) out += fmt::format("{} {}\n", status.id, status.lost_drives);
  return out;
}

/// Basis of a look: when it changes, other objects may be the most endangered ones.
struct LookedBy {
  std::uint64_t map_version = 0;
  std::string losses;

  bool operator==(const LookedBy&) const = default;
};
LookedBy keep_coded_present(const TargetNode& node) {
  const auto state = node.owned.state();
  return {state->map->version, losses(*state)};
}

/// State that the workers of one look share, all on its loop.
struct RepairWork {
  RepairQueue queue;
  const LookedBy by;
  bool all = true;  ///< false: something is left
};

/// Repairs the next object of the queue. cancelled where other objects are more endangered by now.
Task<Status> repair_next(TargetNode& node, RepairWork& work) {
  if (keep_coded_present(node) != work.by) co_return fail(Errc::cancelled, "a change");
  if (node.rebuild.is_stopped()) co_return fail(Errc::cancelled, "told to stop");
  auto wanted = work.queue.next();
  TARN_CHECK(wanted);
  RebuildWatch::Making making(node.rebuild, node.clock, wanted->name.bucket, wanted->missing,
                              wanted->bytes);
  const bool made = co_await repair_object(node, std::move(wanted->name), &making);
  making.end(made);
  work.all = work.all && made;
  co_return Status();
}

Task<bool> repair_all(TargetNode& node, RepairQueue queue, LookedBy by) {
  RepairWork work{std::move(queue), std::move(by)};
  const auto repair = [&](std::size_t /*i*/) { return repair_next(node, work); };
  const Status ended = co_await gather_at_most(kKeepCodedAtOnce, work.queue.size(), repair);
  co_return ended&& work.all;
}

RebuildWatch::Todo todo_of(const KeepCodedFound& found) {
  RebuildWatch::Todo todo;
  todo.objects = found.queue.added().objects;
  todo.buckets = found.queue.added().buckets;
  todo.bytes = found.queue.added().bytes;
  todo.incomplete = found.incomplete;
  todo.waits = found.waits;
  return todo;
}

/// Result of a pass.
enum class PassEnd : std::uint8_t {
  all,   ///< all is done
  more,  ///< there are more names than one pass remembers, and all of these were done
  later  ///< something could only be done later
};

/// Everything that is to be done now.
Task<PassEnd> keep_coded_pass(TargetNode& node, LookedBy by) {
  node.rebuild.look_begins(by.map_version);
  auto found = co_await look_through(node);
  if (!found) {
    obs::log("repair").warn("coded objects not looked through err={}", found.error().message);
    node.rebuild.look_ends(false, found.error().message, node.clock);
    co_return PassEnd::later;
  }
  node.rebuild.found(todo_of(*found), node.clock);
  const std::size_t names = found->queue.size();
  // More names than are remembered: the next look has the rest of them.
  const bool rest = found->queue.let_some_go();
  const bool repaired = co_await repair_all(node, std::move(found->queue), by);
  const char* const why = repaired ? "there are more objects than one look remembers"
                                   : "something could not be made yet: see the log";
  node.rebuild.look_ends(repaired && !rest, why, node.clock);
  if (keep_coded_present(node) != by)
    co_return PassEnd::later;  // endangered objects do not wait for the rest
  if (repaired && rest) co_return PassEnd::more;
  const auto unnamed = co_await drop_unnamed(node);
  const std::size_t waiting = unnamed ? unnamed->waiting : 0;
  if (found->objects > 0)
    obs::log("repair").info(
        "coded objects looked through objects={} repaired={} slices={} "
        "dropped={} waiting={}",
        found->objects, names, unnamed ? unnamed->asked : 0, unnamed ? unnamed->dropped : 0,
        waiting);
  // One that leaves stays until it has none: it asks again, since an owner that moved a slice off
  // it may have died before it could report that.
  const auto needed = co_await is_needed_for_slices(node);
  const bool all =
      repaired && !rest && !found->again && unnamed && waiting == 0 && needed && !*needed;
  co_return all ? PassEnd::all : PassEnd::later;
}

}  // namespace

Task<void> keep_coded(TargetNode& node) {
  LookedBy done;  // basis of the last complete look
  DrivesHere here;
  bool changed = false;  // a drive that comes may bring records, and slices that none names
  auto due = SteadyClock::now();
  std::chrono::seconds again = kKeepCodedAgainFirst;
  while (true) {
    co_await pause_until(next_tick(kKeepCodedLookEvery));
    if (!node.membership.lease().valid()) continue;
    const auto state = node.owned.state();
    const LookedBy now{state->map->version, losses(*state)};
    const auto change = here.look(node.store.drives());
    changed = changed || change.came || change.went;
    if (node.rebuild.is_stopped()) continue;  // also before a look by this map
    if (now != done || changed)
      again = kKeepCodedAgainFirst;
    else if (!node.rebuild.is_asked() && SteadyClock::now() < due)
      continue;
    if (!node.membership.lease().valid() || state->settled < now.map_version) continue;
    done = now;
    changed = false;
    const PassEnd end = co_await keep_coded_pass(node, now);
    due = SteadyClock::now();
    if (end == PassEnd::all) due += kKeepCodedEveryDay;
    if (end == PassEnd::later) due += again;
    again = end == PassEnd::later ? std::min<std::chrono::seconds>(again * 2, kKeepCodedAgainMost)
                                  : kKeepCodedAgainFirst;
  }
}

Task<Status> tell_rebuild(TargetNode& node, http::Request& request) {
  nlohmann::json report = node.rebuild.report(node.clock);
  report["copies"] = node.given_copies.report(node.clock);
  report["incarnation"] = node.membership.incarnation();
  co_return co_await request.exchange.respond(http::Response(
      200, http::kJson, report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

Task<Status> start_rebuild(TargetNode& node, http::Request& request) {
  const bool stop_stays = request.query().get("unless") == "stopped";
  const std::uint64_t look = stop_stays ? node.rebuild.ask_unless_stopped() : node.rebuild.ask();
  const std::uint64_t copies_look = node.rebuild.is_stopped() ? 0 : node.given_copies.ask();
  const nlohmann::json answer{
      {"look", look}, {"copies_look", copies_look}, {"incarnation", node.membership.incarnation()}};
  co_return co_await request.exchange.respond(http::Response(200, http::kJson, answer.dump()));
}

Task<Status> stop_rebuild(TargetNode& node, http::Request& request) {
  node.rebuild.stop(known_losses(*node.owned.state()));
  obs::log("repair").info("rebuild stopped by an operator");
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::target
