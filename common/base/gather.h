#pragma once

#include <exception>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>

#include "common/base/async.h"

namespace tarn {

/// Runs all `tasks` at once on the caller's loop and waits until each has ended; their results in
/// the order of the tasks. Cancelling the caller cancels them. What a task throws is thrown here,
/// when all have ended. T must have a default constructor (a Result has).
template <class T>
Task<std::vector<T>> gather(std::vector<Task<T>> tasks) {
  const auto executor = co_await asio::this_coro::executor;
  using Start = decltype(asio::co_spawn(executor, std::declval<Task<T>>(), asio::deferred));
  std::vector<Start> starts;
  starts.reserve(tasks.size());
  for (Task<T>& task : tasks)
    starts.push_back(asio::co_spawn(executor, std::move(task), asio::deferred));
  if (starts.empty()) co_return std::vector<T>();
  auto [order, errors, results] =
      co_await asio::experimental::make_parallel_group(std::move(starts))
          .async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  co_return std::move(results);
}

}  // namespace tarn
