#pragma once

namespace tarn {

/// What both programs do first, before any thread exists: SIGTERM and SIGINT are blocked in all
/// threads so that wait_for_stop() gets them, SIGPIPE is ignored (a closed socket is an error of
/// the write), and the limit on open files is raised as far as it goes.
void prepare_process();

/// Waits until the process is asked to stop. The name of the signal: "SIGTERM" or "SIGINT".
[[nodiscard]] const char* wait_for_stop();

}  // namespace tarn
