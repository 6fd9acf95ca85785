#pragma once

#include "target/node/node.h"

namespace tarn::target {

// Answers to the messages of slice_messages.h, on the internal listener.

Task<Status> write_slice(TargetNode& node, http::Request& request);
Task<Status> seal_written_slice(TargetNode& node, http::Request& request);
Task<Status> abandon_slice(TargetNode& node, http::Request& request);
Task<Status> read_slice(TargetNode& node, http::Request& request);
Task<Status> drop_slice(TargetNode& node, http::Request& request);
Task<Status> tell_slices(TargetNode& node, http::Request& request);
Task<Status> judge_slices(TargetNode& node, http::Request& request);
Task<Status> hear_of_bad_slice(TargetNode& node, http::Request& request);

}  // namespace tarn::target
