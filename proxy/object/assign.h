#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/api/request_path.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "common/cluster/state/state.h"
#include "common/http/exchange.h"
#include "common/http/router.h"
#include "proxy/core/services.h"
#include "proxy/watch/suspects.h"

namespace tarn::proxy {

/// A bucket that exists, in the state of the cluster in which it does.
struct KnownBucket {
  std::shared_ptr<const cluster::ClusterState> state;
  const cluster::BucketRecord* record = nullptr;  ///< within `state`
};
/// Looks in the last state, and reads the meta store before it answers bucket_not_found.
/// unavailable when the store is out of reach.
Task<Result<KnownBucket>> find_bucket(const Services& services, api::Bucket name);
/// The bucket that a path without provider and namespace means.
[[nodiscard]] api::Bucket plain_bucket(std::string name);
/// The error for a missing bucket. Names the call that lists buckets.
[[nodiscard]] Error bucket_not_found(const api::Bucket& name);
/// True if an error means that there is no such bucket here.
[[nodiscard]] bool is_unknown_bucket(const Error& error);
/// The same error for a write. Names the call that creates the bucket.
[[nodiscard]] Error bucket_to_make(const api::Bucket& name);

enum class Access : std::uint8_t { read, write };
[[nodiscard]] Access access_of(http::Method method);

/// The target that owns an object, if a client may be sent there: not when it does not answer, and
/// for writes not without a lease. unavailable (503) otherwise: the name exists, but is not
/// available now.
[[nodiscard]] Result<const cluster::Node*> owner_for(const cluster::ClusterState& state,
                                                     const Answering& answering,
                                                     const cluster::BucketRecord& bucket,
                                                     std::string_view object, Access access);

/// Way of the body of a request to the node that stores it.
enum class Passage : std::uint8_t { redirected, relayed };
/// Refuses with length_required a PUT with neither length nor chunks, which would be stored as an
/// empty object by mistake.
Status check_body_framing(const http::RequestHead& head);
/// True if a client sends its whole body again after a redirect. With chunks, and without waiting
/// for `100 Continue`, it may send only the rest of its generator: relay it.
[[nodiscard]] bool is_safe_to_redirect(const http::RequestHead& head);

/// The object that a request names. `object` is text of the caller.
struct Wanted {
  api::Bucket bucket;
  std::string_view object;
  std::string uname;
  bool is_prefix = false;  ///< ends in '/': surely no object

  [[nodiscard]] std::string display() const;  ///< "ais://B/O"
};
/// Checks the names and the query. invalid_argument, unsupported.
[[nodiscard]] Result<Wanted> wanted_by(const http::Request& request, std::string_view bucket,
                                       std::string_view object);

/// Target that serves a request for an object, and the URL to ask there.
struct Assignment {
  std::shared_ptr<const cluster::ClusterState> state;
  const cluster::Node* target = nullptr;  ///< within `state`
  /// "http://TARGET/v1/objects/B/O?provider=ais&...&u=SIGNATURE"
  std::string url;
};
/// Finds bucket and owner, or for a GET the replica that has least to do, and signs. Errors:
/// bucket_not_found, object_not_found, unavailable.
Task<Result<Assignment>> assign(const Services& services, const http::Request& request,
                                const Wanted& wanted, Passage passage);
/// The same from present knowledge. None if that does not suffice: assign() then asks, or has the
/// error.
[[nodiscard]] std::optional<Assignment> assign_at_once(const Services& services,
                                                       const http::Request& request,
                                                       const Wanted& wanted, Passage passage);

}  // namespace tarn::proxy
