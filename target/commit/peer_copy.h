#pragma once

#include <stop_token>

#include "common/api/object_query.h"
#include "target/commit/incoming.h"

namespace tarn::target {

/// Destination of a copy: the bucket as it is now, and the target that owns the name, which may be
/// this one.
struct Destination {
  ObjectRequest object;                  ///< without claim
  const cluster::Node* owner = nullptr;  ///< within object.state
};
/// bucket_not_found when the bucket does not exist (the meta store was asked), unavailable when no
/// target owns the name.
Task<Result<Destination>> find_destination(TargetNode& node, api::ObjectAddress address);

/// Further terms of a copy.
struct CopyTerms {
  /// The request whose If-Match and If-None-Match must hold for the destination, or null.
  const http::RequestHead* conditions = nullptr;
  std::stop_token stop{};
};

/// Evicts what is stored of an object, whose owner we are, when upstream has another version. False
/// if it is gone there, in which case `evict_gone` evicts it as well.
Task<Result<bool>> confirm_source(TargetNode& node, const ObjectRequest& source,
                                  bool evict_gone = false);
/// The newest version with its file open, as open_newest(); of a bucket with an upstream, what the
/// cluster does not have is fetched first. Null when there is none. cancelled on `stop`.
Task<Result<std::shared_ptr<OpenObject>>> open_source(TargetNode& node, const ObjectRequest& wanted,
                                                      std::stop_token stop = {});
/// Makes `to` a durable copy of `from`, which is what `name` has here, custom metadata included.
/// Writes it here, or by a PUT that this target signs when another one owns the name. The bytes are
/// compared with their checksums on the way. Takes the destination's lock at its commit only, and
/// no other. cancelled when it was asked to stop; then nothing is there but what was there before.
Task<Status> copy_to(TargetNode& node, const std::string& request_id, const ObjectName& name,
                     OpenObject& from, const Destination& to, CopyTerms terms = {});

/// True if the object is there now: in this target's index, or as its owner answers; in a bucket
/// with an upstream, if upstream has it. Errors where that cannot be known, bucket_not_found when
/// the bucket is gone.
Task<Result<bool>> is_there(TargetNode& node, const std::string& request_id,
                            const Destination& object);
/// True if `to` is the same as `from` by size, checksum and custom metadata: copying it would
/// change nothing but its time. Errors as is_there().
Task<Result<bool>> is_copied(TargetNode& node, const std::string& request_id,
                             const OpenObject& from, const Destination& to);

}  // namespace tarn::target
