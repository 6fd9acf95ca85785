#pragma once

#include "target/node/node.h"

namespace tarn::target {

// Handlers of requests for objects and lists, one file each.

Task<Status> get_object(TargetNode& node, http::Request& request);        // get.cc
Task<Status> head_object(TargetNode& node, http::Request& request);       // head.cc
Task<Status> put_object(TargetNode& node, http::Request& request);        // put.cc
Task<Status> delete_object(TargetNode& node, http::Request& request);     // delete.cc
Task<Status> patch_object(TargetNode& node, http::Request& request);      // patch.cc
Task<Status> post_object(TargetNode& node, http::Request& request);       // post.cc
Task<Status> list_objects(TargetNode& node, http::Request& request);      // list.cc, internal
Task<Status> summarize_bucket(TargetNode& node, http::Request& request);  // summary.cc, internal
Task<Status> heartbeat(TargetNode& node, http::Request& request);         // heartbeat.cc, internal
Task<Status> tell_readiness(TargetNode& node, http::Request& request);    // heartbeat.cc, internal

// Requests that come as a PUT or POST; `wanted` is admitted for writing.
Task<Status> append_object(TargetNode& node, http::Request& request,
                           const ObjectRequest& wanted);  // append.cc: append and flush
Task<Status> copy_object(TargetNode& node, http::Request& request,
                         const ObjectRequest& wanted);  // copy.cc
Task<Status> rename_object(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                           std::string new_name);  // rename.cc

/// Drops appends without a next call for `append_timeout`; runs until it is cancelled (append.cc).
Task<void> drop_abandoned_appends(TargetNode& node);

}  // namespace tarn::target
