#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/state/cluster_view.h"
#include "common/http/client.h"
#include "common/http/loops.h"
#include "common/http/router.h"
#include "common/security/node_auth.h"
#include "common/security/redirect_token.h"
#include "target/node/bad_slices.h"
#include "target/node/cold_objects.h"
#include "target/node/drives_away.h"
#include "target/node/handoff_progress.h"
#include "target/node/moves.h"
#include "target/node/open_appends.h"
#include "target/node/open_slices.h"
#include "target/node/owned_names.h"
#include "target/node/pending_names.h"
#include "target/node/rebuild_watch.h"
#include "target/node/recode_counts.h"
#include "target/node/repair_requests.h"
#include "target/node/resilver_request.h"
#include "target/node/room_maker.h"
#include "target/node/running_jobs.h"
#include "target/node/scrub_board.h"
#include "target/node/unjudged_slices.h"
#include "target/node/upstream_writes.h"
#include "target/store/object_store.h"

namespace tarn::target {

/// State that the handlers of a target share. Made in main.cc; outlives the listeners.
struct TargetNode {
  std::string id;
  cluster::ClusterView& view;
  cluster::Membership& membership;
  ObjectStore& store;
  const security::RedirectSigner& signer;
  const security::NodeAuth& auth;  ///< of calls to other nodes
  OwnedNames& owned;
  Clock& clock;
  http::Loops& loops;  ///< on which requests are served
  std::atomic<bool> verify_always = false;
  std::atomic<bool> leaving = false;  ///< ends soon: proxies redirect no client here
  /// Rings when `leaving`, or the health of a drive, changes.
  std::shared_ptr<Event> readiness_changed = std::make_shared<Event>();
  std::atomic<std::uint64_t> generation_counter{0};
  http::Client client = {};  ///< for copies to other targets
  OpenAppends appends = {};
  OpenSlices open_slices = {};
  SliceDrops slice_drops = {};
  UnjudgedSlices unjudged = {};
  DrivesAway drives_away = {};
  BadSlices bad_slices = {};
  RepairRequests repair_requests = {};
  RebuildWatch rebuild = {};
  /// Copies and records sent to targets that lost a drive (lost_records.h). Obeys rebuild.stop().
  RebuildWatch given_copies = {};
  RecodeCounts recoded = {};
  ScrubBoard scrub = {};
  /// Reads of cold objects of buckets with an upstream. Set before the first request.
  ColdObjects* cold = nullptr;
  /// Writes of objects of such buckets. Set before the first request.
  UpstreamWrites* upstream_writes = nullptr;
  /// Makes room where a drive is full; null: nothing does.
  RoomMaker* room = nullptr;
  /// Requests of clients that are being served.
  std::atomic<std::size_t> clients{0};
  RunningJobs running_jobs = {};
  Moves moves = Moves(id);
  ResilverRequest resilver = {};
  HandoffProgress handoff = {};
  PendingNames pending = {};
  /// Work beside requests and after their answers: slices on their way, removal of old versions.
  /// Closed when the last request has ended.
  http::TaskGroup aside = {};
  std::atomic<std::chrono::milliseconds> append_timeout{std::chrono::hours(1)};

  /// The generation of a change that commits now, at the version that OwnedNames::Write::commit()
  /// returned (docs/decisions/011).
  [[nodiscard]] Generation next_generation(std::uint64_t map_version) {
    return cluster::make_generation(map_version, membership.incarnation(), ++generation_counter);
  }
};

/// An object request, checked: whose bucket it is, that it came the right way, that the name is
/// ours.
struct ObjectRequest {
  std::shared_ptr<const cluster::ClusterState> state;
  cluster::BucketRecord bucket;
  ObjectName name;
  std::optional<security::RedirectClaim> claim;  ///< claim that the proxy signed, if one sent it
  std::int64_t stale_seconds = 0;                ///< > 0: answered without a lease (Tarn-Stale)
  /// The target that owns the name, within `state`; null when we do. A request that was meant for
  /// the owner goes on there (redirect_to_owner.h).
  const cluster::Node* elsewhere = nullptr;
  /// The owner sent the reader here, where the newest version still lies.
  bool from_owner = false;
  OwnedNames::Write write;  ///< has begun, when it was admitted for writing

  /// "ais://photos/cat.jpg", as clients' error parsers look for it.
  [[nodiscard]] std::string display() const { return bucket.name.display() + "/" + name.object; }
};

/// The name of an object in a bucket, with as many copies as that wants.
[[nodiscard]] ObjectName name_in(const cluster::BucketRecord& bucket, std::string object);
/// Layout on drives of objects of the bucket with this id, which `bucket` is the record of; null:
/// it has been destroyed.
[[nodiscard]] BucketOnDrives on_drives(BucketId id, const cluster::BucketRecord* bucket);
/// A name with as many copies as its bucket wants now: that may have changed while a body arrived.
[[nodiscard]] ObjectName as_of_now(const TargetNode& node, ObjectName name);

/// Begins a write of a name of ours; `out` stays empty when it is another's. unavailable when there
/// is no lease, or an older owner has not handed the name over after some seconds.
Task<Status> wait_for_turn(TargetNode& node, const std::string& uname, OwnedNames::Write& out);
/// A write of our own making. unavailable when the name is not ours, or not yet.
Task<Result<OwnedNames::Write>> begin_write(TargetNode& node, const std::string& uname);
/// ok if this target writes the name, by the newest map that it knows; else cancelled: what another
/// one has to do is in vain here.
[[nodiscard]] Status check_writer(TargetNode& node, const std::string& uname);
/// A request for the name, made by this target itself. bucket_not_found when its bucket is gone.
[[nodiscard]] Result<ObjectRequest> request_of(const TargetNode& node, ObjectName name);
/// Returns the error for an object that does not exist, or not here.
[[nodiscard]] Error object_missing(const ObjectRequest& wanted);

}  // namespace tarn::target
