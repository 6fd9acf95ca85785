// Counts, at the owner of coded objects, how many of their slices are there.

#include "target/repair/coded_counts.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "common/api/mirror_props.h"
#include "common/api/slice_counts.h"
#include "common/base/encoding.h"
#include "target/repair/coded_walk.h"
#include "target/repair/losses_borne.h"
#include "target/repair/repair_plan.h"
#include "target/replica/uncounted_copies.h"
#include "target/replica/uncounted_drives.h"

namespace tarn::target {
namespace {

using Zones = std::map<std::string, std::string>;

/// Numbers of slices that are lost together.
struct Together {
  std::map<std::string, std::uint64_t> holders;
  std::map<std::uint64_t, std::uint64_t> drives;
  std::uint64_t alone = 0;  ///< slices whose drive is not known
};

Together together(const CodedObject& object) {
  Together out;
  const auto add = [&](const std::string& holder, SliceState state, std::uint64_t drive) {
    if (state != SliceState::good) return;
    ++out.holders[holder];
    if (drive != 0)
      ++out.drives[drive];
    else
      ++out.alone;
  };
  const io::Coding& coding = *object.record.coding;
  for (std::size_t i = 0; i < object.states.size(); ++i)
    add(coding.holders[i], object.states[i], object.drives[i]);
  add(coding.full_copy, object.full_copy, object.full_copy_drive);
  return out;
}

std::uint64_t nodes_to_spare(const Together& slices, std::uint64_t left) {
  std::vector<std::uint64_t> each;
  each.reserve(slices.holders.size());
  for (const auto& [holder, count] : slices.holders) each.push_back(count);
  return losses_borne(std::move(each), left);
}

/// `zones`: of targets, by id. Nothing where there are none.
std::optional<std::uint64_t> zones_to_spare(const Together& slices, std::uint64_t left,
                                            const Zones& zones) {
  if (zones.empty()) return std::nullopt;
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [holder, count] : slices.holders) {
    const auto zone = zones.find(holder);
    counts[zone == zones.end() ? "" : zone->second] += count;
  }
  std::vector<std::uint64_t> each;
  each.reserve(counts.size());
  for (const auto& [zone, count] : counts) each.push_back(count);
  return losses_borne(std::move(each), left);
}

std::uint64_t drives_to_spare(const Together& slices, std::uint64_t left) {
  std::vector<std::uint64_t> each(slices.alone, 1);
  for (const auto& [drive, count] : slices.drives) each.push_back(count);
  return losses_borne(std::move(each), left);
}

void coded_counts_count(const CodedObject& object, const Zones& zones, api::SliceCounts& counts) {
  const io::Coding& coding = *object.record.coding;
  const auto number = [&](SliceState state) {
    return static_cast<std::uint64_t>(
        std::count(object.states.begin(), object.states.end(), state));
  };
  const std::uint64_t good = number(SliceState::good);
  const bool has_full_copy = object.full_copy == SliceState::good;
  const std::uint64_t left = slices_left(coding, good, has_full_copy);
  const Together slices = together(object);
  const std::uint64_t drives = drives_to_spare(slices, left);
  ++counts.objects;
  const bool wants_full_copy = coding.layout == io::Coding::Layout::whole;
  const bool waits_for_full_copy =
      !coding.full_copy.empty() && object.full_copy == SliceState::waiting;
  const std::uint64_t waiting = number(SliceState::waiting) + (waits_for_full_copy ? 1 : 0);
  const bool is_lost = !has_full_copy && !waits_for_full_copy && good + waiting < coding.k;
  const bool lacks_some = good < object.states.size() || (wants_full_copy && !has_full_copy);
  if (lacks_some || drives < coding.m)
    counts.incomplete[object.name.object] = {drives, waiting, is_lost};
  counts.survives_drives = api::lesser(counts.survives_drives, drives);
  counts.survives_nodes = api::lesser(counts.survives_nodes, nodes_to_spare(slices, left));
  counts.survives_zones = api::lesser(counts.survives_zones, zones_to_spare(slices, left, zones));
}

/// True if the object can be read from the slices that are on targets other than `without`.
bool is_readable(const CodedObject& object, const std::set<std::string>& without) {
  const io::Coding& coding = *object.record.coding;
  if (object.full_copy == SliceState::good && !without.contains(coding.full_copy)) return true;
  std::size_t good = 0;
  for (std::size_t i = 0; i < object.states.size(); ++i)
    if (object.states[i] == SliceState::good && !without.contains(coding.holders[i])) ++good;
  return good >= coding.k;
}

/// Slices of a bucket here that are to be dropped soon. One that cannot be looked up is left out.
Task<api::SliceSum> unnamed_here(TargetNode& node, BucketId bucket) {
  api::SliceSum out;
  for (const SliceDrop& drop : node.slice_drops.of(bucket)) {
    const auto found = co_await node.store.slices().find(drop.key);
    if (!found || !*found) continue;
    const io::ObjectRecord& record = (*found)->record;
    if (record.slice && !(drop.up_to < record.generation)) out.add({1, record.slice->file_bytes});
  }
  co_return out;
}

}  // namespace

Task<Status> count_slices(TargetNode& node, http::Request& request) {
  const auto bucket = parse_u64(request.query().get("bucket"));
  const auto map_version = parse_u64(request.query().get("map"));
  const auto bmd_version = parse_u64(request.query().get("bmd"));
  if (!bucket || !map_version || !bmd_version)
    co_return fail(Errc::invalid_argument, "slices: bucket, map and bmd are required");
  CO_TRY(const auto state, co_await node.view.at_least(*map_version, *bmd_version));
  const auto same_map = [&] { return node.view.state()->map.version == *map_version; };
  const auto* record = state->bmd.find(BucketId{*bucket});
  if (record == nullptr) co_return fail(Errc::bucket_not_found, "the bucket does not exist");
  api::SliceCounts counts;
  const NameRange range{std::string(request.query().get("after")),
                        std::string(request.query().get("last"))};
  const Zones zones = cluster::zones_by_id(state->ownership->map->members);
  const std::set<std::string> without = api::ids_in(request.query().get("without"));
  if (!without.empty()) counts.unreadable.emplace();
  const auto visit = [&](const std::vector<CodedObject>& objects) {
    for (const CodedObject& object : objects) {
      coded_counts_count(object, zones, counts);
      if (counts.unreadable && is_readable(object, {}) && !is_readable(object, without))
        counts.unreadable->insert(object.name.object);
    }
  };
  // Slices that were found bad before a start are missing from then on.
  CO_TRY_OK(UncountedCopies::of(node, *record));
  const std::uint8_t copies = api::copies_of(record->props);
  if (same_map()) CO_TRY_OK(co_await walk_coded(node, *record, visit, range));
  counts.drives_away = uncounted_here(node, record->id, copies).drives;
  if (range.after.empty()) {
    counts.unnamed = co_await unnamed_here(node, record->id);
    counts.unjudged = node.unjudged.of(record->id);
  }
  // Other targets own some of the names by another map: no target, or two, would have counted
  // these.
  if (!same_map()) {
    http::Response other_map(421, http::kText, "this target acts on a newer map\n");
    co_return co_await request.exchange.respond(std::move(other_map));
  }
  co_return co_await request.exchange.respond(
      http::Response(200, "application/msgpack", encode(counts)));
}

}  // namespace tarn::target
