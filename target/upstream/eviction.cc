// One eviction from one drive: the walks over its index, and the delete of each object chosen.

#include "target/upstream/eviction.h"

#include <algorithm>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "common/api/eviction_props.h"
#include "common/api/mirror_props.h"
#include "common/api/upstream_props.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "ec/layout.h"
#include "target/coded/piece_home.h"
#include "target/coded/put_tombstone.h"
#include "target/drive/piece_ids.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kEvictionPage = 1000;  // records that one visit to the drive looks at
constexpr std::size_t kEvictionBatch = 16;   // objects between two looks at the space
constexpr std::uint64_t kEvictionFailuresMax = 20;
constexpr std::uint64_t kFileBlock = 4096;

std::uint64_t on_drive(std::uint64_t bytes) { return (bytes / kFileBlock + 1) * kFileBlock; }

/// Bytes that an eviction of the object frees on all drives of the cluster. `copies`: on how many
/// targets an object that is not coded lies.
std::uint64_t bytes_of(const io::ObjectRecord& record, std::uint64_t copies) {
  if (!record.coding) return on_drive(record.file_bytes()) * copies;
  const auto layout = ec::Layout::of(geometry_of(*record.coding), record.size);
  if (!layout) return 0;
  const bool has_whole = record.coding->layout == io::Coding::Layout::whole;
  return on_drive(layout->blocks_bytes()) * record.coding->homes.size() +
         (has_whole ? on_drive(record.size) : 0);
}

/// Deletes of several names share the syncs of an index. More would be felt by readers.
std::size_t eviction_workers(const Drive& drive) {
  return drive.kind() == io::DriveKind::rotational ? 2 : 4;
}

Error eviction_stopped() { return {Errc::cancelled, "the eviction was told to stop"}; }

}  // namespace

Eviction::Eviction(TargetNode& node, Drive& drive, EvictionOrder order)
    : node_(node),
      drive_(drive),
      order_(std::move(order)),
      now_(std::chrono::duration_cast<std::chrono::seconds>(node.clock.wall_time()).count()),
      free_before_(drive.space().free) {}

Task<Status> Eviction::run() {
  const std::vector<Source> all = sources();
  for (const Source& source : all) CO_TRY_OK(co_await plan(source));
  if (!plan_.settle(order_.goal)) co_return Status();
  CO_FAIL_POINT("evict.planned");
  for (const Source& source : all) {
    if (is_reached()) break;
    CO_TRY_OK(co_await carry_out(source));
  }
  co_return Status();
}

std::vector<Eviction::Source> Eviction::sources() const {
  std::vector<Source> out;
  const auto state = node_.view.state();
  for (const auto& [name, bucket] : state->bmd.buckets) {
    const api::EvictionProps props = api::eviction_of(name, bucket.props);
    const bool may_go = props.enabled || (order_.ignore_switch && api::has_upstream(name));
    const bool is_meant = order_.only.empty() || order_.only.contains(bucket.id);
    if (!may_go || !is_meant || bucket.ending) continue;
    const auto protect = std::chrono::duration_cast<std::chrono::seconds>(props.protect).count();
    out.push_back(
        {bucket, static_cast<std::uint32_t>(std::min<std::int64_t>(protect, UINT32_MAX))});
  }
  return out;
}

/// By what was evicted, or by what is free: another drive may share the file system.
bool Eviction::is_reached() const {
  return bytes_ >= order_.goal.bytes || drive_.space().free >= free_before_ + order_.goal.bytes;
}

Task<Result<bool>> Eviction::next_page(const Source& source, std::string& after,
                                       const Visit& visit) {
  if (order_.stop.stop_requested()) co_return fail(eviction_stopped());
  const auto begun = steady_clock::now();
  CO_TRY(const auto page, co_await drive_.list(source.bucket.id, "", after, kEvictionPage));
  // Copies of others' objects go with theirs, as copies of ours go there: each owner has its share.
  const auto state = node_.view.state();
  const auto shows = names_to_show(node_, state, source.bucket.id);
  const cluster::Pieces pieces = source.bucket.pieces();
  const std::uint64_t copies = pieces.many() ? pieces.at(state->map.version) : 1;
  for (const auto& [name, record] : page.entries) {
    after = name;
    if (record.kind != io::ObjectRecord::Kind::object || (shows && !shows(name))) continue;
    Pick pick{name, record.generation, last_access(source, name), bytes_of(record, copies)};
    EvictionCandidate candidate;
    candidate.age =
        static_cast<std::uint32_t>(std::max<std::int64_t>(now_ - std::int64_t{pick.last}, 0));
    candidate.bytes = pick.bytes;
    candidate.is_protected = candidate.age < source.protect;
    visit(std::move(pick), candidate);
  }
  co_await rest_since(begun);
  co_return page.more;
}

/// Of a name with copies on drives, whichever of them was read.
std::uint32_t Eviction::last_access(const Source& source, const std::string& name) const {
  std::uint32_t last = drive_.access_times().last(source.bucket.id, name);
  if (api::copies_of(source.bucket.props) == 0) return last;
  for (const auto& drive : node_.store.drives())
    last = std::max(last, drive->access_times().last(source.bucket.id, name));
  return last;
}

/// Leaves readers half of the time, unless a write waits.
Task<void> Eviction::rest_since(steady_clock::time_point begun) {
  if (order_.is_urgent && order_.is_urgent()) co_return;
  asio::steady_timer timer(co_await asio::this_coro::executor, steady_clock::now() - begun);
  co_await timer.async_wait(asio::use_awaitable);
}

Task<Status> Eviction::plan(const Source& source) {
  std::string after;
  const auto add = [this](const Pick&, const EvictionCandidate& candidate) {
    plan_.add(candidate);
  };
  for (bool more = true; more;) {
    CO_TRY(more, co_await next_page(source, after, add));
  }
  co_return Status();
}

Task<Status> Eviction::carry_out(const Source& source) {
  std::string after;
  for (bool more = true; more && !is_reached();) {
    std::vector<Pick> picks;
    const auto choose = [&](Pick pick, const EvictionCandidate& candidate) {
      if (plan_.take(candidate)) picks.push_back(std::move(pick));
    };
    CO_TRY(more, co_await next_page(source, after, choose));
    CO_TRY_OK(co_await evict_all(source, picks));
  }
  co_return Status();
}

Task<Status> Eviction::evict_all(const Source& source, const std::vector<Pick>& picks) {
  for (std::size_t begin = 0; begin < picks.size() && !is_reached(); begin += kEvictionBatch) {
    const auto begun = steady_clock::now();
    const std::vector<Pick> batch(picks.begin() + static_cast<std::ptrdiff_t>(begin),
                                  picks.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                      begin + kEvictionBatch, picks.size())));
    std::size_t next = 0;
    std::vector<Task<Status>> workers;
    for (std::size_t i = 0; i < std::min(eviction_workers(drive_), batch.size()); ++i)
      workers.push_back(work(source, batch, next));
    const auto ends = co_await gather(std::move(workers));
    for (const Status& end : ends) CO_TRY_OK(end);
    co_await drop_pieces_now(node_);  // slices of what went
    CO_TRY(const io::Space now, co_await drive_.measure_space());
    static_cast<void>(now);  // Drive::space() has it from here on
    order_.on_evicted(0);
    co_await rest_since(begun);
  }
  co_return Status();
}

Task<Status> Eviction::work(const Source& source, const std::vector<Pick>& picks,
                            std::size_t& next) {
  while (next < picks.size() && bytes_ < order_.goal.bytes) {
    if (order_.stop.stop_requested()) co_return fail(eviction_stopped());
    const Pick& pick = picks[next++];
    const Status done = co_await evict(source, pick);
    if (done) continue;
    obs::log("target").debug("not evicted object={}/{} err={}", source.bucket.name.display(),
                             pick.name, done.error().message);
    CO_TRY_OK(drive_.usable());
    if (++failed_ == kEvictionFailuresMax) co_return done;
  }
  co_return Status();
}

/// Deletes the version that the walk saw, as an eviction by name does (cold_reads.cc).
Task<Status> Eviction::evict(const Source& source, const Pick& pick) {
  if (last_access(source, pick.name) != pick.last) co_return Status();
  const ObjectName name = name_in(source.bucket, pick.name);
  // A writer may wait for the very room that this is to make, with the lock in its hand.
  if (node_.store.locks().is_held(name.key()) || !node_.owned.at_rest(name.uname))
    co_return Status();
  CO_TRY(const ObjectRequest wanted, request_of(node_, name));
  OwnedNames::Write write;
  if (node_.owned.begin(name.uname, write) != OwnedNames::Verdict::yes) co_return Status();
  CO_FAIL_POINT("evict.before_delete");
  const auto held = co_await node_.store.locks().acquire(name.key());
  CO_TRY(Newest newest, co_await find_newest(node_, wanted));
  if (!newest.exists() || newest.holder != nullptr) co_return Status();
  if (newest.record->generation != pick.generation && SAFETY("safety.evict_compare"))
    co_return Status();
  CO_TRY_OK(co_await delete_present(node_, wanted, std::move(newest.here), write));
  ++objects_;
  bytes_ += pick.bytes;
  order_.on_evicted(pick.bytes);
  CO_FAIL_POINT("evict.after_delete");
  co_return Status();
}

}  // namespace tarn::target
