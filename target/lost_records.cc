#include "target/lost_records.h"

#include <algorithm>
#include <map>
#include <set>

#include <boost/asio/steady_timer.hpp>

#include "common/api/coding_props.h"
#include "common/api/mirror_props.h"
#include "common/base/event.h"
#include "common/obs/log.h"
#include "target/away_drive.h"
#include "target/move_copy.h"
#include "target/move_pace.h"
#include "target/node_call.h"
#include "target/node_copies.h"
#include "target/rebuild_pace.h"
#include "target/recode.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kLostRecordsLookEvery = 500ms;
constexpr std::chrono::seconds kLostRecordsAgainFirst{2};
constexpr std::chrono::seconds kLostRecordsAgainMost{60};
/// Records that one visit to a drive's thread looks at.
constexpr std::size_t kLostRecordsRecordsAtOnce = 20'000;
constexpr std::size_t kLostRecordsNamesAtOnce = 256;
constexpr http::CallLimits kLostRecordsAskLimits{.connect = 1s, .total = 4s};

/// Other targets that believe that drives of theirs are lost, and which: TargetWord::lost_drives.
using Losers = std::map<std::string, std::uint64_t>;

/// By what records are given: when it is something else, others may be missing.
struct GivenBy {
  std::uint64_t map_version = 0;
  Losers losers;

  bool operator==(const GivenBy&) const = default;
};

GivenBy lost_records_present(const TargetNode& node, const cluster::OwnershipState& state) {
  GivenBy out{state.map->version, {}};
  for (const cluster::TargetWord& word : state.live)
    if (word.lost_drives != 0 && word.id != node.id) out.losers[word.id] = word.lost_drives;
  return out;
}

/// One look through what lies here.
class Giving {
 public:
  Giving(TargetNode& node, const GivenBy& by) : node_(node), by_(by), state_(node.view.state()) {}

  /// False: something could only be given later.
  Task<bool> run();

 private:
  struct Page {
    std::map<std::string, std::vector<OfferedName>> names;  // by the id of who may lack them
    std::string last;
    bool more = false;
  };
  Task<Status> walk(Drive& drive, const cluster::BucketRecord& bucket);
  Task<Result<Page>> next_page(Drive& drive, const cluster::BucketRecord& bucket,
                               std::string after);
  Task<Status> offer(const cluster::BucketRecord& bucket, std::string id,
                     std::vector<OfferedName> names);
  Task<Status> give(const cluster::BucketRecord& bucket, const Receiver& to, std::string object);
  Task<Status> wait_turn(std::uint64_t bytes);
  Task<void> ask_to_look();
  [[nodiscard]] bool is_current() const {
    return node_.view.state()->map.version == state_->map.version;
  }

  TargetNode& node_;
  const GivenBy& by_;
  const std::shared_ptr<const cluster::ClusterState> state_;
  std::set<std::string> refused_;  // who takes nothing now
  std::map<std::string, std::size_t> given_;
  bool all_ = true;
};

/// Records on one drive of which another home may have lost its own. A plain object that is still
/// to be cut has no copies (recode.h).
Task<Result<Giving::Page>> Giving::next_page(Drive& drive, const cluster::BucketRecord& bucket,
                                             std::string after) {
  Page page;
  std::size_t seen = 0;
  std::size_t found = 0;
  const cluster::Ownership& map = *state_->ownership->map;
  const auto visit = [&](std::string_view object, const io::ObjectRecord& record) -> Index::Step {
    page.last = std::string(object);
    page.more = ++seen == kLostRecordsRecordsAtOnce;
    const bool is_single = !record.coding && is_kept_otherwise(bucket.props, record);
    if (!is_single) {
      const std::string uname = bucket.placement_name(page.last);
      const auto homes = homes_of(map, uname, bucket.pieces());
      const bool is_ours = std::find(homes.begin(), homes.end(), node_.id) != homes.end();
      for (const std::string& id : homes) {
        if (!is_ours || !by_.losers.contains(id)) continue;
        page.names[id].push_back({page.last, record.kind, record.generation});
        page.more = page.more || ++found == kLostRecordsNamesAtOnce;
      }
    }
    return {.stop = page.more, .skip_to = {}};
  };
  CO_TRY_OK(co_await drive.walk(bucket.id, "", std::move(after), visit));
  co_return page;
}

/// Until what is given may take so many bytes; cancelled when rebuilds are stopped.
Task<Status> Giving::wait_turn(std::uint64_t bytes) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (true) {
    if (node_.rebuild.is_stopped()) co_return fail(Errc::cancelled, "it was told to stop");
    if (!is_current()) co_return fail(Errc::cancelled, "the map has changed");
    const auto wait =
        rebuild_wait(node_.moves.limits, bytes, node_.clock.boot_time(), clients_wait(node_));
    if (wait == std::chrono::nanoseconds::zero()) co_return Status();
    timer.expires_after(wait);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

Task<Status> Giving::give(const cluster::BucketRecord& bucket, const Receiver& to,
                          std::string object) {
  const ObjectName name = name_in(bucket, std::move(object));
  CO_TRY_OK(co_await settle_copies(node_, name));
  if (!sees_all(node_, name))
    co_return fail(Errc::unavailable, "a drive here that is away may have something newer of {}",
                   name.object);
  CO_TRY(const auto outgoing, co_await open_outgoing(node_, name, bucket));
  if (!outgoing) co_return Status();
  CO_TRY_OK(co_await wait_turn(outgoing->attribute.record.file_bytes()));
  CO_TRY([[maybe_unused]] const bool stored,
         co_await send_copy(node_, to, outgoing->attribute, outgoing->object.get(), nullptr));
  ++given_[to.node.id];
  co_return Status();
}

/// cancelled ends the look; other errors are noted.
Task<Status> Giving::offer(const cluster::BucketRecord& bucket, std::string id,
                           std::vector<OfferedName> names) {
  const cluster::Node* loser = state_->map.find(id);
  if (loser == nullptr || refused_.contains(id)) co_return Status();
  const Receiver to{*loser, state_->map.version, state_->bmd.version};
  Offer offered{bucket.id, to.bmd_version, to.map_version, std::move(names)};
  const auto lacks = co_await offer_names(node_, to, offered);
  Error last = lacks ? Error{} : lacks.error();
  std::size_t failed = 0;
  if (lacks) {
    for (const std::size_t each : *lacks) {
      const Status given = co_await give(bucket, to, std::move(offered.names[each].name));
      if (given) continue;
      if (given.error().code == Errc::cancelled) co_return given;
      last = given.error();
      ++failed;
    }
  }
  if (lacks && failed == 0) co_return Status();
  all_ = false;
  // Of some, others may be taken; when nothing is, it has no room or no drive for them.
  if (!lacks || failed == lacks->size()) refused_.insert(id);
  obs::log("repair").info("lost records not given target={} err={}", id, last.message);
  co_return Status();
}

Task<Status> Giving::walk(Drive& drive, const cluster::BucketRecord& bucket) {
  std::string after;
  for (bool more = true; more;) {
    CO_TRY_OK(co_await wait_turn(0));
    CO_TRY(Page page, co_await next_page(drive, bucket, after));
    more = page.more;
    after = page.last;
    for (auto& [id, names] : page.names) CO_TRY_OK(co_await offer(bucket, id, std::move(names)));
  }
  co_return Status();
}

/// Who has got some looks what is missing of them.
Task<void> Giving::ask_to_look() {
  for (const auto& [id, count] : given_) {
    obs::log("repair").info("lost records given target={} count={}", id, count);
    auto request = signed_call(node_, http::Method::post, "/v1/internal/rebuild?unless=stopped");
    const auto answer = co_await ask_target(node_, id, std::move(request), kLostRecordsAskLimits);
    if (!answer || answer->status != 200)
      obs::log("repair").warn("not asked to look for what is missing target={}", id);
  }
}

Task<bool> Giving::run() {
  for (const auto& [id, bucket] : state_->bmd.buckets) {
    // On several drives of each home they are made again there (Mirror).
    if (!api::was_ever_coded(bucket.props) || api::copies_of(bucket.props) > 0) continue;
    for (const auto& drive : node_.store.drives()) {
      if (!drive->in_service()) continue;
      const Status walked = co_await walk(*drive, bucket);
      all_ = all_ && walked;
    }
  }
  co_await ask_to_look();
  co_return all_;
}

}  // namespace

Task<void> give_lost_records(TargetNode& node) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  GivenBy done;
  auto due = SteadyClock::time_point::max();
  std::chrono::seconds again = kLostRecordsAgainFirst;
  while (true) {
    timer.expires_at(next_tick(kLostRecordsLookEvery));
    co_await timer.async_wait(asio::use_awaitable);
    const auto state = node.owned.state();
    const GivenBy now = lost_records_present(node, *state);
    if (now.losers.empty()) {
      done = {};
      continue;
    }
    if (now == done && SteadyClock::now() < due) continue;
    if (!node.membership.lease().valid() || state->settled < now.map_version) continue;
    if (node.rebuild.is_stopped() || node.view.state()->map.version != now.map_version) continue;
    if (now != done) again = kLostRecordsAgainFirst;
    done = now;
    Giving giving(node, done);
    const bool all = co_await giving.run();
    due = all ? SteadyClock::time_point::max() : SteadyClock::now() + again;
    again = std::min(again * 2, kLostRecordsAgainMost);
  }
}

}  // namespace tarn::target
