#include "cli/tools/job_wait.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/base/progress.h"
#include "cli/tools/job_progress.h"
#include "common/base/pause.h"

namespace tarn::cli {
namespace {

/// Waits until it has ended, or all targets of a copy of many objects are done, which stays idle
/// for a while then.
Task<Result<JobDetails>> wait_for_targets(Session& session, std::string id, Meter& meter) {
  constexpr std::chrono::milliseconds kPollMax{500};
  for (std::chrono::milliseconds wait{20};; wait = std::min(wait * 2, kPollMax)) {
    CO_TRY(JobDetails job, co_await job_details(session, id));
    meter.at(job.sum.bytes);
    const bool idle = job.status.kind == "copy-listrange" && !job.targets.empty() &&
                      std::all_of(job.targets.begin(), job.targets.end(),
                                  [](const JobFigures& each) { return each.ended; });
    if (idle || job.status.ended_ns != 0) co_return job;
    co_await pause(wait);
  }
}

}  // namespace

Exit tell_of_job(Session& session, const char* command, const std::string& id,
                 const JobWords& words, const GlobalOptions& options) {
  if (words.no_wait) {
    if (options.json)
      print_json({{"job", id}});
    else
      fmt::print("{}\n", id);
    return Exit::ok;
  }
  Progress progress(command, progress_style(options.quiet));
  Result<JobDetails> done;
  {
    Progress::Line line(progress, words.line);
    done = session.run(wait_for_targets(session, id, line.meter()));
  }
  progress.finish();
  if (!done) return complain(command, done.error());
  if (!done->complaint().empty())
    return complain(command, {Errc::io, fmt::format("job {}: {}", id, done->complaint())});
  if (options.json)
    print_json({{"job", id}, {"objects", done->sum.objects}, {"bytes", done->sum.bytes}});
  else if (!options.quiet)
    fmt::print("{} {} objects, {}\n", words.done, done->sum.objects,
               readable_size(done->sum.bytes));
  return Exit::ok;
}

}  // namespace tarn::cli
