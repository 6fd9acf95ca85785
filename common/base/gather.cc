#include "common/base/gather.h"

#include <exception>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>

namespace tarn {

Task<void> gather(std::vector<Task<void>> tasks) {
  if (tasks.empty()) co_return;
  const auto executor = co_await asio::this_coro::executor;
  using Start = decltype(asio::co_spawn(executor, std::move(tasks.front()), asio::deferred));
  std::vector<Start> starts;
  starts.reserve(tasks.size());
  for (Task<void>& task : tasks)
    starts.push_back(asio::co_spawn(executor, std::move(task), asio::deferred));
  const auto [order, errors] =
      co_await asio::experimental::make_parallel_group(std::move(starts))
          .async_wait(asio::experimental::wait_for_one_error(), asio::use_awaitable);
  for (const std::size_t ended : order)
    if (errors[ended]) std::rethrow_exception(errors[ended]);
}

namespace detail {

Task<std::size_t> run_first(Task<void> one, Task<void> other) {
  const auto executor = co_await asio::this_coro::executor;
  const auto [order, one_threw, other_threw] =
      co_await asio::experimental::make_parallel_group(
          asio::co_spawn(executor, std::move(one), asio::deferred),
          asio::co_spawn(executor, std::move(other), asio::deferred))
          .async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  const std::size_t first = order.front();
  if (const auto& error = first == 0 ? one_threw : other_threw) std::rethrow_exception(error);
  co_return first;
}

}  // namespace detail

}  // namespace tarn
