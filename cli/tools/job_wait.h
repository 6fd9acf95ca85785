#pragma once

#include <string>

#include "cli/base/exit_code.h"
#include "cli/base/session.h"

namespace tarn::cli {

/// Text that reports a job that a command began.
struct JobWords {
  std::string line;  ///< of its progress: "photos to backup"
  std::string done;  ///< before the numbers: "copied"
  bool no_wait = false;
};
/// Waits until all targets are done with job `id` and prints their counts; with no_wait prints the
/// id and returns. failed, after a line, when the job ended with an error or was stopped.
Exit tell_of_job(Session& session, const char* command, const std::string& id,
                 const JobWords& words, const GlobalOptions& options);

}  // namespace tarn::cli
