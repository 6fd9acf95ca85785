#pragma once

#include <cstdint>
#include <stop_token>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "common/io/object_attribute.h"

namespace tarn::target {

struct ObjectRequest;

/// Objects of buckets with an upstream that the cluster does not have: requests for them are
/// answered from there (docs/decisions/021). Thread-safe.
class ColdObjects {
 public:
  virtual ~ColdObjects() = default;
  /// Answers a GET for an object that no drive of the cluster has, and stores it on the way.
  virtual Task<Status> get(http::Request& request, const ObjectRequest& wanted) = 0;
  /// Answers a GET whose object, if the cluster has it, cannot be read now; stores nothing.
  virtual Task<Status> pass_through(http::Request& request, const ObjectRequest& wanted) = 0;
  /// Fetches an object that no drive of the cluster has, and stores it; its bytes. Returns when it
  /// is stored, or is known not to be. cancelled on `stop`; what is being fetched comes all the
  /// same.
  virtual Task<Result<std::uint64_t>> fetch(const ObjectRequest& wanted, std::stop_token stop) = 0;
  /// Number of bytes that upstream has of it. bad_upstream if it does not report that.
  virtual Task<Result<std::uint64_t>> size(const ObjectRequest& wanted) = 0;
  /// True if upstream still has this version: serve the stored object. False: upstream has another
  /// version, and the stored one was evicted: call get(). object_not_found when the object is gone
  /// there; it stays here unless the bucket's freshness is changed_gone. Errors of Upstream when it
  /// cannot be asked.
  virtual Task<Result<bool>> confirm(const ObjectRequest& wanted,
                                     const io::ObjectRecord& record) = 0;
  /// True if confirm() has been true for this version, or it was fetched, within the bucket's
  /// versioning.validate_interval.
  [[nodiscard]] virtual bool was_confirmed(const ObjectRequest& wanted,
                                           const io::ObjectRecord& record) const = 0;
  /// Waits while an object whose bytes have all come is being stored: a client that has read all of
  /// it finds it in the cluster. False, without a wait, if none is.
  virtual Task<bool> wait_stored(const ObjectRequest& wanted) = 0;
  /// True while it is being fetched.
  [[nodiscard]] virtual bool is_fetching(const ObjectRequest& wanted) const = 0;
  /// Answers a HEAD. `status_only`: without fields.
  virtual Task<Status> head(http::Request& request, const ObjectRequest& wanted,
                            bool status_only) = 0;
};

/// True if upstream is to be asked before this stored version is served: by the properties of the
/// bucket, or by the request. `cold` may be null for a bucket without an upstream.
[[nodiscard]] bool wants_confirmed(const ColdObjects* cold, const ObjectRequest& wanted,
                                   const io::ObjectRecord& record, const http::Request& request);

}  // namespace tarn::target
