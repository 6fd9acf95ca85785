#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/cluster/cluster_view.h"
#include "common/cluster/membership.h"
#include "common/http/router.h"
#include "common/security/redirect_token.h"
#include "target/object_store.h"

namespace tarn::target {

/// What the handlers of a target share. Made in main.cc; outlives the listeners.
struct TargetNode {
  std::string id;
  cluster::ClusterView& view;
  cluster::Membership& membership;
  ObjectStore& store;
  const security::RedirectSigner& signer;
  Clock& clock;
  bool verify_always = false;
  std::atomic<std::uint64_t> generation_counter{0};

  /// The generation of a change that commits now (design.md, section 3).
  [[nodiscard]] Generation next_generation(const cluster::ClusterState& state) {
    return {state.map.version, membership.incarnation(), ++generation_counter};
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
};

/// For GET and HEAD: unsigned requests are fine, answers without a lease are marked.
/// Errors: bucket_not_found, invalid_argument, forbidden, unavailable (not the owner; no lease and
/// the client insists on a fresh answer).
Task<Result<ObjectRequest>> admit_read(TargetNode& node, http::Request& request);
/// For PUT and DELETE: only as a proxy sent them, and only with a lease.
Task<Result<ObjectRequest>> admit_write(TargetNode& node, http::Request& request);

// The handlers, one file each.
Task<Status> get_object(TargetNode& node, http::Request& request);        // get.cc: GET and HEAD
Task<Status> put_object(TargetNode& node, http::Request& request);        // put.cc
Task<Status> delete_object(TargetNode& node, http::Request& request);     // delete.cc
Task<Status> list_objects(TargetNode& node, http::Request& request);      // list.cc, internal
Task<Status> summarize_bucket(TargetNode& node, http::Request& request);  // summary.cc, internal
Task<Status> heartbeat(TargetNode& node, http::Request& request);         // heartbeat.cc, internal

/// The route tables of the two listeners (routes.cc).
[[nodiscard]] std::vector<http::Route> public_routes(TargetNode& node);
[[nodiscard]] std::vector<http::Route> internal_routes(TargetNode& node);

/// Why this target cannot serve now; ok when it can.
[[nodiscard]] Status readiness(const TargetNode& node);

}  // namespace tarn::target
