// tarn-target: a storage node.

#include <cstdlib>
#include <iostream>
#include <optional>
#include <system_error>

#include "common/base/process.h"
#include "common/obs/log.h"
#include "target/command_line.h"
#include "target/process/target.h"

namespace tarn::target {
namespace {

int run(int argc, char** argv) {
  const auto said = parse_command_line(argc, argv);
  if (!said.has_value()) return said.error();
  const Options& options = *said;
  prepare_process();

  std::optional<Target> target;
  Status started;
  try {
    target.emplace(options);
    started = target->start();
  } catch (const std::system_error& problem) {
    started = fail(Errc::unavailable,
                   "cannot start a thread: {}; raise the limit (ulimit -u, TasksMax, pids.max) or "
                   "lower drive.threads",
                   problem.what());
  }
  if (!started) {
    std::cerr << "tarn-target: " << started.error().message << "\n";
    std::cerr.flush();
    std::_Exit(1);  // half-started: nothing to finish
  }
  obs::log("target").info("asked to stop signal={}", wait_for_stop());
  target->stop();
  const Status ended = target->end_with_cluster();
  if (!ended)
    std::cerr << "tarn-target: the cluster ends, and this target did not in order (start it again, "
                 "or decommission without it: frc=true): "
              << ended.error().message << "\n";
  std::cerr.flush();
  std::_Exit(ended ? 0 : 1);  // all is durable; a drive that hangs must not keep the process
}

}  // namespace
}  // namespace tarn::target

int main(int argc, char** argv) { return tarn::target::run(argc, argv); }
