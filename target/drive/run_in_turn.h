#pragma once

#include <type_traits>
#include <utility>

#include "common/io/drive_threads.h"
#include "target/drive/head_turns.h"

namespace tarn::target {

/// Runs `work` on the drive's threads in a turn of its own: whatever moves the head waits as any
/// reader does. Errors: those of `work`, and unavailable while the drive refuses.
template <class Work>
Task<std::invoke_result_t<Work>> run_in_turn(HeadTurns& turns, io::DriveThreads& threads, Work work,
                                             TurnFor purpose = TurnFor::client) {
  CO_TRY_OK(co_await turns.wait(purpose));
  auto result = co_await threads.run(std::move(work));
  turns.done();
  co_return result;
}

}  // namespace tarn::target
