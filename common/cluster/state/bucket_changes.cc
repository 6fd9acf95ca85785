#include "common/cluster/state/bucket_changes.h"

#include <utility>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/api/inventory.h"
#include "common/api/mirror_props.h"
#include "common/api/upstream_props.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/pause.h"
#include "common/base/random.h"
#include "common/base/read_json.h"
#include "common/cluster/place/slice_plan.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/attempts.h"
#include "common/cluster/store/keys.h"

namespace tarn::cluster {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr std::size_t kUuidLength = 12;

/// Value of a key bucket-name/...
struct NameEntry {
  BucketId id{};
  std::string made_by;  ///< random: identifies the transaction when an outcome is unknown
};

std::string bucket_changes_encode(const NameEntry& entry) {
  return json{{"id", raw(entry.id)}, {"made_by", entry.made_by}}.dump();
}

Result<NameEntry> decode_name(const KeyValue& item) {
  return read_json(Errc::corrupt, subject_of_key(item.key), [&] {
    const json in = json::parse(item.value);
    return NameEntry{BucketId{in.at("id").get<std::uint64_t>()}, in.value("made_by", "")};
  });
}

Result<BucketRecord> decode_bucket(const KeyValue& item) {
  return parse_json<BucketRecord>(item.value, Errc::corrupt, subject_of_key(item.key));
}

/// Base of a change of buckets: each change of it changes the counter.
struct BucketBase {
  std::uint64_t version = 0;
  Revision version_revision = 0;
  std::optional<NameEntry> entry;  ///< of the name that is asked for

  /// A transaction that holds while this is the newest, and bumps the counter.
  [[nodiscard]] Transaction next() const {
    Transaction out;
    out.compare.push_back(
        {std::string(keys::kBmdVersion), Compare::What::mod_revision, version_revision});
    out.puts.push_back({std::string(keys::kBmdVersion), std::to_string(version + 1), 0});
    return out;
  }
};

Task<Result<BucketBase>> read_base(MetaStore& store, api::Bucket name) {
  // The counter first: a change between the two reads then makes the transaction fail.
  CO_TRY(const auto counter, co_await read_key(store, std::string(keys::kBmdVersion)));
  if (!counter) co_return fail(Errc::unavailable, "there is no cluster in the meta store yet");
  const auto version = parse_u64(counter->value);
  if (!version)
    co_return fail(Errc::corrupt, "key {} of the meta store is no number", keys::kBmdVersion);
  BucketBase base{*version, counter->mod_revision, std::nullopt};
  CO_TRY(const auto found, co_await read_key(store, keys::bucket_name(name)));
  if (found) {
    CO_TRY(base.entry, decode_name(*found));
  }
  co_return base;
}

/// True if the bucket that has the new name already is the one that is to be renamed: by us, in an
/// attempt whose outcome is unknown, or by an earlier call whose answer was lost.
Task<Result<bool>> is_renamed(MetaStore& store, KeyValue goal, const BucketBase& base,
                              const api::Bucket& from, const std::string& made_by) {
  CO_TRY(const NameEntry entry, decode_name(goal));
  if (entry.made_by == made_by) co_return true;
  if (base.entry) co_return false;
  CO_TRY(const auto found, co_await read_key(store, keys::bucket(entry.id)));
  if (!found) co_return false;
  CO_TRY(const BucketRecord bucket, decode_bucket(*found));
  co_return bucket.former_name == from;
}

/// Adds to `out` the map from which on `bucket` has another number of copies on nodes than
/// `before`, or is coded for the first time. A node that knows that map knows the bucket.
Task<Status> publish_copies(MetaStore& store, std::uint32_t before, BucketRecord& bucket,
                            Transaction& out) {
  CO_TRY(const auto found, co_await read_key(store, std::string(keys::kMap)));
  if (!found) co_return fail(Errc::unavailable, "there is no cluster map in the meta store");
  CO_TRY(Smap map, decode_map(found->value));
  const Ownership next = with_other_copies(ownership_of(map));
  note_replica_count(bucket.past_replica_counts, next, before);
  take_ownership(map, next);
  map.rebalance = {false, map.version};
  out.compare.push_back({found->key, Compare::What::mod_revision, found->mod_revision});
  out.puts.push_back({std::string(keys::kMap), json(map).dump(), 0});
  out.puts.push_back({std::string(keys::kMapVersion), std::to_string(map.version), 0});
  co_return Status();
}

/// Our own view shows the change at once; if it cannot, its follower brings it.
Task<void> refresh(ClusterView& view) { (void)co_await view.fresh(); }

std::string utc_text(WallTime time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

/// Reason if an attempt failed, and did not just come too late.
std::optional<Error> trouble(const Result<TransactionResult>& done) {
  if (done) return std::nullopt;
  return done.error();
}

/// Error after so many attempts: `last` is the trouble of the last one.
Error gave_up(const api::Bucket& name, std::string_view what, const std::optional<Error>& last) {
  const std::string why =
      last ? last->message : fmt::format("buckets changed {} times meanwhile", Attempts::kMost);
  return {Errc::unavailable,
          fmt::format("bucket {} could not be {}: {}", name.display(), what, why)};
}

}  // namespace

void put_bucket(const BucketRecord& bucket, const std::string& made_by, Transaction& out) {
  out.puts.push_back({keys::bucket(bucket.id), json(bucket).dump(), 0});
  out.puts.push_back(
      {keys::bucket_name(bucket.name), bucket_changes_encode(NameEntry{bucket.id, made_by}), 0});
}

Task<Status> wait_acknowledged(MetaStore& store, ClusterView& /*view*/, std::uint64_t bmd_version,
                               std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (auto step = 5ms;; step = std::min(step * 2, 200ms)) {
    RangeRequest live{std::string(keys::kLive), prefix_end(std::string(keys::kLive)), 0};
    CO_TRY(const auto nodes, co_await store.range(std::move(live)));
    std::string behind;
    for (const KeyValue& item : nodes.items) {
      CO_TRY(const auto record, decode_live(item));
      if (record.bmd_version < bmd_version) behind = item.key.substr(keys::kLive.size());
    }
    if (behind.empty()) co_return Status();
    if (std::chrono::steady_clock::now() >= deadline)
      co_return fail(Errc::timeout, "node {} has not acknowledged bucket metadata {} within {} ms",
                     behind, bmd_version, limit.count());
    co_await pause(step);
  }
}

namespace {

/// Each slice of an object lies on a drive of its own.
Status check_drives(const NodeSet& standing, const api::CodingProps& coding) {
  const std::size_t k = coding.k;
  const std::size_t m = coding.m;
  const std::size_t drives = slice_reach(standing, k, m, coding.full_copy).drives;
  if (k + m <= drives) return {};
  const std::string choice =
      drives > m
          ? fmt::format("with ec.parity_slices {}, ec.data_slices can be {} at most", m, drives - m)
      : drives > 1 ? fmt::format("together they can be {} at most", drives)
                   : "erasure coding takes two drives at least";
  return fail(Errc::invalid_argument,
              "ec.data_slices {} and ec.parity_slices {}: each of the {} slices of an object needs "
              "a drive of its own, and the targets have {} together: {}, or add drives or targets",
              k, m, k + m, drives, choice);
}

/// Properties of a coded bucket, as the targets that there are take them. No target may get a
/// record that it cannot read.
Task<Result<BucketProps>> fit_to_targets(ClusterView& view, BucketProps props) {
  const auto coding = api::coding_of(props);
  if (!coding) co_return props;
  CO_TRY(const auto state, co_await view.fresh());
  CO_TRY_OK(check_drives(standing_members(*state->ownership->map), *coding));
  const Status can = all_can_code(*state->ownership);
  if (!can) co_return fail(can.error().code, "ec.enabled: {}", can.error().message);
  co_return api::with_record_copies(std::move(props), state->map.placeable_targets().size());
}

}  // namespace

Task<Result<BucketRecord>> create_bucket(MetaStore& store, ClusterView& view, api::Bucket name,
                                         BucketProps props, Clock& clock) {
  if (!api::is_system_bucket(name)) CO_TRY_OK(api::check_bucket_name(name.name));
  CO_TRY_OK(api::check_coding(props));
  CO_TRY_OK(api::check_upstream(name, props));
  CO_TRY(props, co_await fit_to_targets(view, std::move(props)));
  const std::string made_by = random_id(16);
  const std::int64_t created_ns = clock.wall_time().count();
  std::optional<Error> last;
  for (Attempts attempts; co_await attempts.next();) {
    CO_TRY(const auto base, co_await read_base(store, name));
    BucketRecord bucket{BucketId{base.version + 1}, name, props, created_ns, {}, {}};
    if (base.entry) {
      // Ours, when an earlier attempt was done although its outcome was unknown.
      if (base.entry->made_by != made_by)
        co_return fail(Errc::bucket_exists, "bucket \"{}\" already exists", name.display());
      bucket.id = base.entry->id;
      co_await refresh(view);
      co_return bucket;
    }
    auto transaction = base.next();
    put_bucket(bucket, made_by, transaction);
    const auto done = co_await store.commit(std::move(transaction));
    if (done && done->succeeded) {
      co_await refresh(view);
      co_return bucket;
    }
    last = trouble(done);
    if (last && last->code != Errc::unavailable) co_return fail(*last);
  }
  co_return fail(gave_up(name, "created", last));
}

Error being_destroyed(const api::Bucket& name) {
  return {Errc::unavailable, fmt::format("bucket \"{}\" is being destroyed", name.display())};
}

namespace {

/// A bucket that is marked, and the version of bucket metadata with the mark.
struct Marked {
  BucketId id{};
  std::uint64_t version = 0;
};

/// The first step of a destroy; a no-op if it is marked already.
Task<Result<Marked>> mark_ending(MetaStore& store, ClusterView& view, api::Bucket name,
                                 Afterwards afterwards) {
  std::optional<Error> last;
  for (Attempts attempts; co_await attempts.next();) {
    CO_TRY(const auto base, co_await read_base(store, name));
    if (!base.entry)
      co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist", name.display());
    CO_TRY(const auto found, co_await read_key(store, keys::bucket(base.entry->id)));
    if (!found) continue;  // destroyed between the two reads
    CO_TRY(BucketRecord bucket, decode_bucket(*found));
    if (bucket.ending || !SAFETY("safety.bucket_ends_first")) {
      co_await refresh(view);
      co_return Marked{bucket.id, base.version};
    }
    bucket.ending = true;
    bucket.comes_again = afterwards == Afterwards::empty;
    auto transaction = base.next();
    transaction.puts.push_back({keys::bucket(bucket.id), json(bucket).dump(), 0});
    const auto done = co_await store.commit(std::move(transaction));
    if (done && done->succeeded) {
      co_await refresh(view);
      co_return Marked{bucket.id, base.version + 1};
    }
    last = trouble(done);
    if (last && last->code != Errc::unavailable) co_return fail(*last);
  }
  co_return fail(gave_up(name, "destroyed", last));
}

/// The second one. Ok as well if another call has done it: that name may be another bucket's by
/// now.
Task<Status> remove_bucket(MetaStore& store, ClusterView& view, api::Bucket name, BucketId id) {
  std::optional<Error> last;
  for (Attempts attempts; co_await attempts.next();) {
    CO_TRY(const auto base, co_await read_base(store, name));
    if (!base.entry || base.entry->id != id) {
      co_await refresh(view);
      co_return Status();  // gone, as we asked, by this call's transaction or another
    }
    CO_TRY(const auto found, co_await read_key(store, keys::bucket(id)));
    if (!found) continue;  // removed between the two reads
    CO_TRY(const BucketRecord bucket, decode_bucket(*found));
    auto transaction = base.next();
    transaction.deletes.push_back({keys::bucket(id), ""});
    transaction.puts.push_back({keys::dead_bucket(id), std::to_string(base.version + 1), 0});
    if (bucket.comes_again) {
      const BucketRecord again{BucketId{base.version + 1}, name, bucket.props,
                               bucket.created_ns,          {},   {}};
      put_bucket(again, random_id(16), transaction);
    } else {
      transaction.deletes.push_back({keys::bucket_name(name), ""});
    }
    const auto done = co_await store.commit(std::move(transaction));
    if (done && done->succeeded) {
      co_await refresh(view);
      co_return Status();
    }
    last = trouble(done);
    if (last && last->code != Errc::unavailable) co_return fail(*last);
  }
  co_return fail(gave_up(name, "destroyed", last));
}

}  // namespace

Task<Status> finish_destroy(MetaStore& store, ClusterView& view, api::Bucket name, BucketId id,
                            std::uint64_t bmd_version, std::chrono::milliseconds limit) {
  CO_TRY_OK(co_await wait_acknowledged(store, view, bmd_version, limit));
  CO_FAIL_POINT("destroy_bucket.before_removal");
  CO_TRY_OK(co_await remove_bucket(store, view, std::move(name), id));
  co_return co_await wait_acknowledged(store, view, view.state()->bmd.version, limit);
}

Task<Status> destroy_bucket(MetaStore& store, ClusterView& view, api::Bucket name,
                            std::chrono::milliseconds limit, Afterwards afterwards) {
  CO_TRY(const Marked marked, co_await mark_ending(store, view, name, afterwards));
  co_return co_await finish_destroy(store, view, std::move(name), marked.id, marked.version, limit);
}

Task<Result<std::string>> name_given_by(MetaStore& store, api::Bucket name) {
  CO_TRY(const auto found, co_await read_key(store, keys::bucket_name(name)));
  if (!found) co_return std::string();
  CO_TRY(const NameEntry entry, decode_name(*found));
  co_return entry.made_by;
}

Task<Result<BucketRecord>> rename_bucket(MetaStore& store, ClusterView& view, api::Bucket from,
                                         api::Bucket to, std::optional<std::string> given_by) {
  CO_TRY_OK(api::check_bucket_name(to.name));
  const std::string made_by = random_id(16);
  std::optional<Error> last;
  for (Attempts attempts; co_await attempts.next();) {
    CO_TRY(const auto base, co_await read_base(store, from));
    CO_TRY(const auto goal, co_await read_key(store, keys::bucket_name(to)));
    if (goal) {
      CO_TRY(const bool done, co_await is_renamed(store, *goal, base, from, made_by));
      if (!done) co_return fail(Errc::bucket_exists, "bucket \"{}\" already exists", to.display());
      CO_TRY(const auto state, co_await view.fresh());
      if (const auto* record = state->bmd.find(to)) co_return *record;
      continue;
    }
    if (!base.entry)
      co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist", from.display());
    if (given_by && base.entry->made_by != *given_by)
      co_return fail(Errc::bucket_not_found, "bucket \"{}\" got its name only later",
                     from.display());
    CO_TRY(const auto found, co_await read_key(store, keys::bucket(base.entry->id)));
    if (!found) continue;  // destroyed between the two reads
    CO_TRY(BucketRecord bucket, decode_bucket(*found));
    const api::Bucket placed_as = bucket.placed_as();
    bucket.first_name.reset();
    if (placed_as != to) bucket.first_name = placed_as;
    bucket.former_name = from;
    bucket.name = to;
    if (bucket.ending) co_return fail(being_destroyed(from));
    auto transaction = base.next();
    put_bucket(bucket, made_by, transaction);
    transaction.deletes.push_back({keys::bucket_name(from), ""});
    CO_FAIL_POINT("rename_bucket.before_commit");
    const auto done = co_await store.commit(std::move(transaction));
    CO_FAIL_POINT("rename_bucket.before_acknowledged");
    if (done && done->succeeded) {
      co_await refresh(view);
      co_return bucket;
    }
    last = trouble(done);
    if (last && last->code != Errc::unavailable) co_return fail(*last);
  }
  co_return fail(gave_up(from, "renamed", last));
}

Task<Result<BucketRecord>> change_bucket(MetaStore& store, ClusterView& view, api::Bucket name,
                                         PropsChange change) {
  std::optional<Error> last;
  for (Attempts attempts; co_await attempts.next();) {
    CO_TRY(const auto base, co_await read_base(store, name));
    if (!base.entry)
      co_return fail(Errc::bucket_not_found, "bucket \"{}\" does not exist", name.display());
    CO_TRY(const auto found, co_await read_key(store, keys::bucket(base.entry->id)));
    if (!found) continue;  // destroyed between the two reads
    CO_TRY(BucketRecord bucket, decode_bucket(*found));
    if (bucket.ending) co_return fail(being_destroyed(name));
    CO_TRY(BucketProps props, change(bucket.props));
    if (props == bucket.props) {  // so too if an earlier attempt was done unknown to us
      co_await refresh(view);
      co_return bucket;
    }
    CO_TRY_OK(api::check_coding(props));
    CO_TRY_OK(api::check_upstream(name, props));
    CO_TRY_OK(api::check_other_upstream(name, bucket.props, props));
    if (api::coding_of(props) != api::coding_of(bucket.props)) {
      CO_TRY(props, co_await fit_to_targets(view, std::move(props)));
      CO_TRY_OK(api::check_other_coding(bucket.props, props));
    }
    CO_TRY_OK(api::check_copies(bucket.props, props, bucket.replica_count().many()));
    const std::uint8_t copies = api::replicas_of(bucket.props);
    const bool is_first_coding = api::was_ever_coded(props) && !api::was_ever_coded(bucket.props);
    bucket.props = std::move(props);
    auto transaction = base.next();
    if (api::replicas_of(bucket.props) != copies || is_first_coding)
      CO_TRY_OK(co_await publish_copies(store, copies, bucket, transaction));
    transaction.puts.push_back({keys::bucket(bucket.id), json(bucket).dump(), 0});
    const auto done = co_await store.commit(std::move(transaction));
    if (done && done->succeeded) {
      co_await refresh(view);
      co_return bucket;
    }
    last = trouble(done);
    if (last && last->code != Errc::unavailable) co_return fail(*last);
  }
  co_return fail(gave_up(name, "changed", last));
}

Task<Result<std::string>> bootstrap(MetaStore& store, std::string default_bucket, Clock& clock,
                                    std::string secret_check) {
  if (!default_bucket.empty()) CO_TRY_OK(api::check_bucket_name(default_bucket));
  for (Attempts attempts; co_await attempts.next();) {
    CO_TRY(const auto moved, co_await read_key(store, std::string(keys::kMovedTo)));
    if (moved)
      co_return fail(Errc::unsupported,
                     "the state of this cluster was moved to {}: start the proxy with --meta {}",
                     moved->value, moved->value);
    CO_TRY(const auto found, co_await read_key(store, std::string(keys::kCluster)));
    if (found) co_return found->value;
    Smap map;
    map.version = 1;
    map.uuid = random_id(kUuidLength);
    map.creation_time = utc_text(clock.wall_time());
    Transaction make;
    make.compare.push_back({std::string(keys::kCluster), Compare::What::create_revision, 0});
    // Not while a cluster is being copied to here.
    make.compare.push_back({std::string(keys::kMoving), Compare::What::create_revision, 0});
    make.puts.push_back({std::string(keys::kCluster), map.uuid, 0});
    if (!secret_check.empty())
      make.puts.push_back({std::string(keys::kSecretCheck), secret_check, 0});
    make.puts.push_back({std::string(keys::kSchema), std::string(keys::kSchemaText), 0});
    make.puts.push_back({std::string(keys::kMap), json(map).dump(), 0});
    make.puts.push_back({std::string(keys::kMapVersion), "1", 0});
    make.puts.push_back({std::string(keys::kBmdVersion), "1", 0});
    if (!default_bucket.empty()) {
      api::Bucket name;
      name.name = default_bucket;
      put_bucket({BucketId{1}, name, {}, clock.wall_time().count(), {}, {}}, "bootstrap", make);
    }
    // Lost, or its outcome unknown: the next look shows the present cluster.
    const auto done = co_await store.commit(std::move(make));
    if (!done && done.error().code != Errc::unavailable) co_return fail(done.error());
  }
  co_return fail(Errc::unavailable, "the meta store does not take a new cluster");
}

}  // namespace tarn::cluster
