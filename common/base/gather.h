#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"

/// Tasks side by side on the caller's loop. Asio's code for it takes a compiler a second for each
/// type of result, so it is compiled once, for tasks without one.
namespace tarn {

/// Result of a task in first_of(); std::monostate for a task without one.
template <class T>
using Ended = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

namespace detail {

Task<std::size_t> run_first(Task<void> one, Task<void> other);

template <class T>
Task<void> keep(Task<T> task, std::optional<Ended<T>>& result) {
  if constexpr (std::is_void_v<T>) {
    co_await std::move(task);
    result.emplace();
  } else {
    result.emplace(co_await std::move(task));
  }
}

}  // namespace detail

/// Runs all `tasks` at once on the caller's loop and waits until each has ended. Cancelling the
/// caller, before this call or in it, cancels them; so does a task that throws, and its exception
/// is thrown here, when all have ended.
Task<void> gather(std::vector<Task<void>> tasks);

/// The same for tasks with results, which are returned in the order of the tasks.
template <class T>
Task<std::vector<T>> gather(std::vector<Task<T>> tasks) {
  std::vector<std::optional<T>> results(tasks.size());
  std::vector<Task<void>> running;
  running.reserve(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i)
    running.push_back(detail::keep(std::move(tasks[i]), results[i]));
  co_await gather(std::move(running));
  std::vector<T> all;
  all.reserve(results.size());
  for (std::optional<T>& result : results) all.push_back(std::move(*result));
  co_return all;
}

/// Runs `task(i)` for each i below `count` on the caller's loop, in order, at most `at_once` at a
/// time. After one that fails no further one is begun; its error is returned when those that run
/// have ended. Cancelling the caller cancels those that run, and none is begun.
Task<Status> gather_at_most(std::size_t at_once, std::size_t count,
                            std::function<Task<Status>(std::size_t)> task);

/// Runs both at once on the caller's loop until one ends, then cancels the other and waits for its
/// end; the result of the first, by its place. Cancelling the caller, before this call or in it,
/// cancels both. An exception of the first is thrown here.
template <class One, class Other>
Task<std::variant<Ended<One>, Ended<Other>>> first_of(Task<One> one, Task<Other> other) {
  using First = std::variant<Ended<One>, Ended<Other>>;
  std::optional<Ended<One>> left;
  std::optional<Ended<Other>> right;
  const std::size_t first = co_await detail::run_first(detail::keep(std::move(one), left),
                                                       detail::keep(std::move(other), right));
  if (first == 0) co_return First(std::in_place_index<0>, std::move(*left));
  co_return First(std::in_place_index<1>, std::move(*right));
}

}  // namespace tarn
