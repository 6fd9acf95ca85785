#pragma once

#include "target/node/node.h"

namespace tarn::target {

// Answers to the messages of piece_format.h, on the internal listener.

Task<Status> write_piece(TargetNode& node, http::Request& request);
Task<Status> seal_written_piece(TargetNode& node, http::Request& request);
Task<Status> abandon_piece(TargetNode& node, http::Request& request);
Task<Status> read_piece(TargetNode& node, http::Request& request);
Task<Status> drop_piece(TargetNode& node, http::Request& request);
Task<Status> tell_pieces(TargetNode& node, http::Request& request);
Task<Status> judge_pieces(TargetNode& node, http::Request& request);
Task<Status> hear_of_bad_piece(TargetNode& node, http::Request& request);

}  // namespace tarn::target
