#pragma once

#include "target/node.h"

namespace tarn::target {

/// Gives records of coded buckets once more to those of their homes that believe a drive of theirs
/// to be lost (DrivesAway), and may have lost them with it: these put them on another drive, as
/// what they are given while a drive is away (away_drive.h). Until then an owner would not know of
/// the objects whose slices it is to look after. When it has been given some, it is asked to look.
/// Only what is known to be at all homes is given, under its generation, by who sees all that it
/// has: it is no newer than what the drive that is away may bring back, and replaces nothing that
/// is as new. Runs until it is cancelled.
Task<void> give_lost_records(TargetNode& node);

}  // namespace tarn::target
