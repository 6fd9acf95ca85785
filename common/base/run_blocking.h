#pragma once

#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include "common/base/async.h"

namespace tarn {

/// Runs `task` on a loop and waits for its result: for the start and the end of a program. Never on
/// the loop itself, which would wait for ever.
template <class T>
T run_blocking(const asio::any_io_executor& loop, Task<T> task) {
  return asio::co_spawn(loop, std::move(task), asio::use_future).get();
}

}  // namespace tarn
