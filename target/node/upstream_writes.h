#pragma once

#include <cstdint>
#include <memory>

#include "common/api/custom_metadata.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/message.h"
#include "common/io/object_attribute.h"
#include "target/node/owned_names.h"

namespace tarn::target {

struct MetadataChange;
struct NewBytes;
struct ObjectRequest;
class WorkFile;

/// A large body that goes upstream in parts while it is still received. Used on one loop.
class EarlyUpload {
 public:
  virtual ~EarlyUpload() = default;
  /// Notes how many bytes of the body are in its file.
  virtual void written(std::uint64_t bytes) = 0;
  /// Ends send(): nothing further is written.
  virtual void stop() = 0;
  /// Sends the parts as they are written; beside the receiving. Errors as UpstreamWrites::put().
  virtual Task<Status> send() = 0;
  /// Removes what was sent, where the upload does not come to its end.
  virtual Task<void> abandon() = 0;
};

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
  /// Success if what upstream has of the object can be the beginning of a new version. As check(),
  /// and unsupported for custom metadata that would be lost.
  virtual Task<Status> check_append(const ObjectRequest& wanted) = 0;
  /// Begins to send a body of `size` bytes that is to come into `file`; after check(). Null for a
  /// small one, which goes in one request when it is complete. Errors as put().
  virtual Task<Result<std::shared_ptr<EarlyUpload>>> begin(const ObjectRequest& wanted,
                                                           WorkFile& file, std::uint64_t size,
                                                           const api::CustomMetadata& custom) = 0;
  /// Sends a complete body upstream, then makes it the object of the cluster. The record has
  /// upstream's entity tag. `head`: the request whose conditions must hold, or null. Where upstream
  /// has accepted it and the cluster cannot keep it, that is a success: it will be fetched when it
  /// is read. `early`: from begin(), with all parts sent; or null.
  ///
  /// Errors: those of check(); those of Upstream; unavailable also when the outcome is unknown.
  virtual Task<Result<io::ObjectRecord>> put(const ObjectRequest& wanted,
                                             const OwnedNames::Write& write, NewBytes bytes,
                                             api::CustomMetadata custom,
                                             const http::RequestHead* head,
                                             std::shared_ptr<EarlyUpload> early) = 0;
  /// Changes the custom metadata of an object upstream, where no byte of it travels, and of what
  /// the cluster has of it. Upstream sets another time for the object, and may set another entity
  /// tag. `head`: the request, whose conditions must hold.
  ///
  /// Errors: those of put(); object_not_found when upstream does not have it; unsupported as
  /// WritableDialect::set_metadata().
  virtual Task<Status> patch(const ObjectRequest& wanted, const OwnedNames::Write& write,
                             const MetadataChange& change, const http::RequestHead& head) = 0;
  /// Deletes an object upstream and here; its size. `head` null: no conditions. object_not_found
  /// when neither has it.
  virtual Task<Result<std::uint64_t>> remove(const ObjectRequest& wanted,
                                             const OwnedNames::Write& write,
                                             const http::RequestHead* head) = 0;
};

}  // namespace tarn::target
