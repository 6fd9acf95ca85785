#pragma once

#include <cstdint>

#include "common/api/custom_metadata.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/message.h"
#include "common/io/object_attribute.h"
#include "target/owned_names.h"

namespace tarn::target {

struct NewBytes;
struct ObjectRequest;

/// Changes of objects of buckets with an upstream: they are made there first
/// (docs/decisions/021). A success means that upstream has accepted the change and that no later
/// read answers with what was before it. Thread-safe.
class UpstreamWrites {
 public:
  virtual ~UpstreamWrites() = default;
  /// Success if the object can be written through: before its body travels. `head`: the request,
  /// whose conditions are compared with what upstream has now. unsupported for a web server and for
  /// custom metadata, which upstream would not keep; precondition_failed.
  virtual Task<Status> check(const ObjectRequest& wanted, const http::RequestHead& head) = 0;
  /// Sends a complete body upstream, then makes it the object of the cluster. The record has
  /// upstream's entity tag. `head`: the request whose conditions must hold, or null. Where upstream
  /// has accepted it and the cluster cannot keep it, that is a success: it will be fetched when it
  /// is read.
  ///
  /// Errors: those of check(); those of Upstream; unavailable also when the outcome is unknown.
  virtual Task<Result<io::ObjectRecord>> put(const ObjectRequest& wanted,
                                             const OwnedNames::Write& write, NewBytes bytes,
                                             api::CustomMetadata custom,
                                             const http::RequestHead* head) = 0;
  /// Deletes an object upstream and here; its size. `head` null: no conditions. object_not_found
  /// when neither has it.
  virtual Task<Result<std::uint64_t>> remove(const ObjectRequest& wanted,
                                             const OwnedNames::Write& write,
                                             const http::RequestHead* head) = 0;
};

}  // namespace tarn::target
