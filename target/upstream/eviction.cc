// One eviction from one drive: the walks over its index, and who is asked to delete.

#include "target/upstream/eviction.h"

#include <algorithm>
#include <utility>

#include "common/api/coding_props.h"
#include "common/api/eviction_props.h"
#include "common/api/mirror_props.h"
#include "common/api/upstream_props.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/coded/slice_holder.h"

namespace tarn::target {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kEvictionPage = 1000;  // records that one visit to the drive looks at
constexpr std::size_t kEvictionBatch = 16;   // objects between two looks at the space
constexpr std::uint64_t kEvictionFailuresMax = 20;
constexpr std::uint64_t kFileBlock = 4096;

std::uint64_t on_drive(std::uint64_t bytes) { return (bytes / kFileBlock + 1) * kFileBlock; }

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

/// True if enough was evicted, or is free: another drive may share the file system.
bool Eviction::is_reached() const {
  return bytes_ >= order_.goal.bytes || drive_.space().free >= free_before_ + order_.goal.bytes;
}

Task<Result<std::vector<Evictable>>> Eviction::next_objects(const Source& source, Position& at) {
  CO_TRY(const auto page, co_await drive_.list(source.bucket.id, "", at.object, kEvictionPage));
  std::vector<Evictable> out;
  for (const auto& [name, record] : page.entries) {
    at.object = name;
    // Coded objects count by their slices.
    if (record.kind != io::ObjectRecord::Kind::object || record.coding) continue;
    out.push_back({name, record.generation, {}, on_drive(record.file_bytes())});
  }
  at.in_slices = !page.more;
  // Without copies, what lies here is known here.
  const api::BucketProps& props = source.bucket.props;
  if (source.bucket.replica_count().many() || api::copies_of(props) > 0) {
    co_await ask_last_reads(node_, source.bucket, out);
  } else {
    for (Evictable& file : out)
      file.last_read = drive_.access_times().last(source.bucket.id, file.name);
  }
  at.at_end = at.in_slices && !api::was_ever_coded(props);
  co_return out;
}

Task<Result<std::vector<Evictable>>> Eviction::next_slices(const Source& source, Position& at) {
  std::vector<Evictable> out;
  const auto visit = [&](const SliceKey& key, const io::ObjectRecord& record) {
    out.push_back({key.name, record.generation, key, on_drive(record.slice->file_bytes)});
    at.slice = key;
    return out.size() < kEvictionPage;
  };
  CO_TRY_OK(co_await drive_.walk_slices(source.bucket.id, at.slice, visit));
  at.at_end = out.size() < kEvictionPage;
  co_await ask_last_reads(node_, source.bucket, out);
  co_return out;
}

Task<Status> Eviction::next_page(const Source& source, Position& at, const Visit& visit) {
  if (order_.stop.stop_requested()) co_return fail(eviction_stopped());
  const auto begun = steady_clock::now();
  CO_TRY(auto files,
         at.in_slices ? co_await next_slices(source, at) : co_await next_objects(source, at));
  for (Evictable& file : files) {
    if (file.last_read == 0) continue;
    EvictionCandidate candidate;
    candidate.age =
        static_cast<std::uint32_t>(std::max<std::int64_t>(now_ - std::int64_t{file.last_read}, 0));
    candidate.bytes = file.bytes;
    candidate.is_protected = candidate.age < source.protect;
    visit(std::move(file), candidate);
  }
  co_await rest_since(begun);
  co_return Status();
}

/// Leaves readers half of the time, unless a write waits.
Task<void> Eviction::rest_since(steady_clock::time_point begun) {
  if (order_.is_urgent && order_.is_urgent()) co_return;
  co_await pause(steady_clock::now() - begun);
}

Task<Status> Eviction::plan(const Source& source) {
  const auto add = [this](const Evictable&, const EvictionCandidate& candidate) {
    plan_.add(candidate);
  };
  for (Position at; !at.at_end;) CO_TRY_OK(co_await next_page(source, at, add));
  co_return Status();
}

Task<Status> Eviction::carry_out(const Source& source) {
  for (Position at; !at.at_end && !is_reached();) {
    std::vector<Evictable> files;
    const auto choose = [&](Evictable file, const EvictionCandidate& candidate) {
      if (plan_.take(candidate)) files.push_back(std::move(file));
    };
    CO_TRY_OK(co_await next_page(source, at, choose));
    CO_TRY_OK(co_await evict_all(source, files));
  }
  co_return Status();
}

Task<Status> Eviction::evict_all(const Source& source, const std::vector<Evictable>& files) {
  for (std::size_t begin = 0; begin < files.size() && !is_reached(); begin += kEvictionBatch) {
    const auto begun = steady_clock::now();
    const std::vector<Evictable> batch(files.begin() + static_cast<std::ptrdiff_t>(begin),
                                       files.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                           begin + kEvictionBatch, files.size())));
    const auto evict_next = [&](std::size_t i) { return evict_if_wanted(source, batch[i]); };
    CO_TRY_OK(co_await gather_at_most(eviction_workers(drive_), batch.size(), evict_next));
    co_await drop_slices_now(node_);  // slices of what went
    CO_TRY(const io::Space now, co_await drive_.measure_space());
    static_cast<void>(now);  // Drive::space() has it from here on
    order_.on_evicted(0);
    co_await rest_since(begun);
  }
  co_return Status();
}

/// Fails with an error that ends the eviction; counts other errors.
Task<Status> Eviction::evict_if_wanted(const Source& source, const Evictable& file) {
  if (bytes_ >= order_.goal.bytes) co_return Status();
  if (order_.stop.stop_requested()) co_return fail(eviction_stopped());
  const Status done = co_await evict(source, file);
  if (done) co_return done;
  obs::log("target").debug("not evicted object={}/{} err={}", source.bucket.name.display(),
                           file.name, done.error().message);
  CO_TRY_OK(drive_.usable());
  if (++failed_ == kEvictionFailuresMax) co_return done;
  co_return Status();
}

Task<Status> Eviction::evict(const Source& source, const Evictable& file) {
  CO_TRY(const auto tombstone, co_await evict_at_owner(node_, source.bucket, file));
  if (!tombstone) co_return Status();
  // The owner sends this order as well, soon: the room is wanted now.
  if (file.slice) drop_slice_later(node_, {*file.slice, *tombstone});
  ++objects_;
  bytes_ += file.bytes;
  order_.on_evicted(file.bytes);
  CO_FAIL_POINT("evict.after_delete");
  co_return Status();
}

}  // namespace tarn::target
