#pragma once

#include "target/node/node.h"

namespace tarn::target {

/// Background task. Sends objects with copies on nodes, and records of coded objects, again to
/// replicas that lack them and believe a drive of theirs lost (DrivesAway). These store them on
/// another drive, as everything that comes while a drive is away (away_drive.h). Names that most
/// replicas lack are sent first, at the pace of a rebuild; TargetNode::given_copies has how far it
/// is. A target that got something is asked to look for slices that it misses. Only versions that
/// all replicas had are sent, under their generation, by a replica whose drives show all that it
/// has of the name. So they are no newer than versions on the drive that is away, and replace none
/// as new. Runs until it is cancelled.
Task<void> give_lost_records(TargetNode& node);

}  // namespace tarn::target
