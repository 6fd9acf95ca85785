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
#include "target/bad_pieces.h"
#include "target/cold_objects.h"
#include "target/drives_away.h"
#include "target/home_moves.h"
#include "target/marked_names.h"
#include "target/moves.h"
#include "target/open_appends.h"
#include "target/open_pieces.h"
#include "target/owned_names.h"
#include "target/rebuild_watch.h"
#include "target/recode_counts.h"
#include "target/repair_wishes.h"
#include "target/resilver_wish.h"
#include "target/room_maker.h"
#include "target/running_copies.h"
#include "target/scrub_board.h"
#include "target/store/object_store.h"
#include "target/unjudged_pieces.h"
#include "target/upstream_writes.h"

namespace tarn::target {

/// What the handlers of a target share. Made in main.cc; outlives the listeners.
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
  std::atomic<bool> leaving = false;  ///< it is to end: proxies shall send nobody here any more
  /// Rings when `leaving`, or the health of a drive, changes.
  std::shared_ptr<Event> readiness_changed = std::make_shared<Event>();
  std::atomic<std::uint64_t> generation_counter{0};
  http::Client client = {};  ///< for copies to other targets
  OpenAppends appends = {};
  OpenPieces open_pieces = {};
  PieceDrops piece_drops = {};
  UnjudgedPieces unjudged = {};
  DrivesAway drives_away = {};
  BadPieces bad_pieces = {};
  RepairWishes repair_wishes = {};
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
  RunningCopies copies = {};
  Moves moves = Moves(id);
  ResilverWish resilver = {};
  HomeMoves home = {};
  MarkedNames marked = {};
  /// What goes on beside requests and behind their answers: slices on their way, what is overtaken.
  /// Closed when the last request has ended.
  http::TaskGroup aside = {};
  std::atomic<std::chrono::milliseconds> append_timeout{std::chrono::hours(1)};

  /// The generation of a change that commits now, by what OwnedNames::Write::commit() says
  /// (docs/decisions/011).
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
  std::optional<security::RedirectClaim> claim;  ///< what the proxy vouched for, if one sent it
  std::int64_t stale_seconds = 0;                ///< > 0: answered without a lease (Tarn-Stale)
  /// The target that owns the name, within `state`; null when we do. A request that was meant for
  /// the owner goes on there (send_on.h).
  const cluster::Node* elsewhere = nullptr;
  /// The owner sent the reader here, where the newest version still lies.
  bool from_owner = false;
  OwnedNames::Write write;  ///< that has begun, when it was admitted for writing

  /// "ais://photos/cat.jpg", as clients' error parsers look for it.
  [[nodiscard]] std::string display() const { return bucket.name.display() + "/" + name.object; }
};

/// The name of an object in a bucket, with as many copies as that wants.
[[nodiscard]] ObjectName name_in(const cluster::BucketRecord& bucket, std::string object);
/// A name with as many copies as its bucket wants now: that may have changed while a body arrived.
[[nodiscard]] ObjectName as_of_now(const TargetNode& node, ObjectName name);

/// For GET and HEAD: unsigned requests are fine, answers without a lease are marked.
/// Errors: bucket_not_found, invalid_argument, forbidden, unavailable (no lease and the client
/// insists on a fresh answer). The caller looks at `elsewhere`.
Task<Result<ObjectRequest>> admit_read(TargetNode& node, http::Request& request);
/// The same without waiting, as it almost always can be done. False: admit_read_later() must do the
/// rest.
Result<bool> admit_read_now(TargetNode& node, http::Request& request, ObjectRequest& out);
Task<Status> admit_read_later(TargetNode& node, http::Request& request, ObjectRequest& out);
/// For all that changes something: only as a proxy sent it, and only with a lease. A name that is
/// being handed over to us is waited for, for a while. The caller looks at `elsewhere`; where that
/// is null, `write` has begun.
Task<Result<ObjectRequest>> admit_write(TargetNode& node, http::Request& request);
/// A write of our own making. unavailable when the name is not ours, or not yet.
Task<Result<OwnedNames::Write>> begin_write(TargetNode& node, const std::string& uname);
/// The name as a request would have it that nobody sent. bucket_not_found when its bucket is gone.
[[nodiscard]] Result<ObjectRequest> request_of(const TargetNode& node, ObjectName name);
/// What a request says about an object that does not exist, or not here.
[[nodiscard]] Error object_missing(const ObjectRequest& wanted);
/// Tombstones `present` and unlinks its files, durably; the tombstone's generation. `custom`: what
/// the tombstone notes. The caller holds the name's lock.
Task<Result<Generation>> put_tombstone(TargetNode& node, const ObjectRequest& wanted,
                                       std::vector<Located> present, const OwnedNames::Write& write,
                                       api::CustomMetadata custom);
/// The same, of a plain delete.
Task<Status> delete_present(TargetNode& node, const ObjectRequest& wanted,
                            std::vector<Located> present, const OwnedNames::Write& write);

// The handlers, one file each.
Task<Status> get_object(TargetNode& node, http::Request& request);        // get.cc
Task<Status> head_object(TargetNode& node, http::Request& request);       // head.cc
Task<Status> put_object(TargetNode& node, http::Request& request);        // put.cc
Task<Status> delete_object(TargetNode& node, http::Request& request);     // delete.cc
Task<Status> patch_object(TargetNode& node, http::Request& request);      // patch.cc
Task<Status> post_object(TargetNode& node, http::Request& request);       // post.cc
Task<Status> list_objects(TargetNode& node, http::Request& request);      // list.cc, internal
Task<Status> summarize_bucket(TargetNode& node, http::Request& request);  // summary.cc, internal
Task<Status> copy_bucket(TargetNode& node, http::Request& request);  // bucket_copy.cc, internal
Task<Status> take_batch(TargetNode& node, http::Request& request);   // object_batch.cc, internal
/// Ends a streamed job (job_stream.h) of any kind: `job=ID` in the query.
Task<Status> stop_job(TargetNode& node, http::Request& request);      // bucket_copy.cc, internal
Task<Status> heartbeat(TargetNode& node, http::Request& request);     // heartbeat.cc, internal
Task<Status> count_slices(TargetNode& node, http::Request& request);  // coded_counts.cc, internal
Task<Status> look_up(TargetNode& node, http::Request& request);       // look_up.cc, internal
Task<Status> answer_offer(TargetNode& node, http::Request& request);  // move_take.cc, internal
Task<Status> take_copy(TargetNode& node, http::Request& request);     // move_take.cc, internal
// piece_requests.cc, internal
Task<Status> write_piece(TargetNode& node, http::Request& request);
Task<Status> seal_written_piece(TargetNode& node, http::Request& request);
Task<Status> abandon_piece(TargetNode& node, http::Request& request);
Task<Status> read_piece(TargetNode& node, http::Request& request);
Task<Status> drop_piece(TargetNode& node, http::Request& request);
Task<Status> tell_pieces(TargetNode& node, http::Request& request);
Task<Status> judge_pieces(TargetNode& node, http::Request& request);
Task<Status> hear_of_bad_piece(TargetNode& node, http::Request& request);
// What comes as a PUT or POST and is something of its own; `wanted` is admitted for writing.
Task<Status> append_object(TargetNode& node, http::Request& request,
                           const ObjectRequest& wanted);  // append.cc: append and flush
Task<Status> copy_object(TargetNode& node, http::Request& request,
                         const ObjectRequest& wanted);  // copy.cc
Task<Status> rename_object(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                           std::string new_name);  // rename.cc

/// Drops appends that nobody has gone on with for `append_timeout`; runs until it is cancelled
/// (append.cc).
Task<void> drop_abandoned_appends(TargetNode& node);

/// The route tables of the two listeners (routes.cc).
[[nodiscard]] std::vector<http::Route> public_routes(TargetNode& node);
[[nodiscard]] std::vector<http::Route> internal_routes(TargetNode& node);

/// Why this target cannot serve now; ok when it can.
[[nodiscard]] Status readiness(const TargetNode& node);

}  // namespace tarn::target
