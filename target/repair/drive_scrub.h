#pragma once

#include <memory>

#include "common/obs/metrics.h"
#include "target/node/node.h"

namespace tarn::target {

/// Reads all files of a drive, again and again, and compares them with their checksums
/// (docs/operations.md, "Scrub"). By itself it reads so slowly that each byte comes once in
/// scrub.period, for a job as fast as clients leave room for. How far it is stands on the drive, so
/// it goes on after a restart. Bad files are noted there, too, and made again: slices by their
/// owner, copies by another replica or from another drive. Runs until the drive is detached.
/// `came`: it came while the target runs. It may have been changed while it was away: all of it is
/// read once at the speed of a job, beginning at once, whatever scrub.period is.
Task<void> keep_scrubbed(TargetNode& node, std::shared_ptr<Drive> drive, bool came);

/// Adds a finding to those of `drive`: a reader has found this file of an object bad. It counts as
/// no copy until it has been made again. On the loop of keep_scrubbed(), which keeps it durably.
void note_bad_file(TargetNode& node, const Drive& drive, const ObjectName& name,
                   const io::FileName& file, const Error& why);

/// GET /v1/internal/scrub: how far it is on each drive, and what was found (docs/api.md).
Task<Status> tell_scrub(TargetNode& node, http::Request& request);
/// POST /v1/internal/scrub {"job":ID}: has each drive in service read all it has from now on, or go
/// on with that, if it had begun for this job. The answer is lines of api::CopyProgress until it is
/// done (target/node/job_stream.h). A caller that stops it, or goes away, leaves the rest to the
/// scrub that goes on by itself.
Task<Status> start_scrub(TargetNode& node, http::Request& request);

/// Gauges: how long ago all of a drive had been read, and what was found bad.
void export_scrubs(obs::Metrics& metrics, TargetNode& node);

}  // namespace tarn::target
