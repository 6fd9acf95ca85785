#include "common/base/gather.h"

#include <algorithm>
#include <exception>
#include <memory>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>

#include "common/base/resume.h"

namespace tarn {
namespace {

/// Awaits `group`. Asio cancels a group only while it is awaited: an earlier cancellation of the
/// caller is passed on as soon as the group has begun.
template <class Group, class Condition>
auto await_group(Group group, Condition condition)
    -> decltype(group.async_wait(condition, asio::use_awaitable)) {
  if (!co_await is_cancelled()) co_return co_await group.async_wait(condition, asio::use_awaitable);
  const auto signal = std::make_shared<asio::cancellation_signal>();
  asio::post(co_await asio::this_coro::executor,
             [signal] { signal->emit(asio::cancellation_type::terminal); });
  co_return co_await group.async_wait(
      condition, asio::bind_cancellation_slot(signal->slot(), asio::use_awaitable));
}

/// State that the workers of gather_at_most() share, all on its loop.
struct Places {
  const std::size_t count;
  const std::function<Task<Status>(std::size_t)> task;
  std::size_t next = 0;
  Status ended{};  ///< the first failure
};

Task<void> take_places(Places& places) {
  while (places.ended && places.next < places.count) {
    const Status done = co_await places.task(places.next++);
    if (!done && places.ended) places.ended = done;
  }
}

}  // namespace

Task<Status> gather_at_most(std::size_t at_once, std::size_t count,
                            std::function<Task<Status>(std::size_t)> task) {
  Places places{count, std::move(task)};
  std::vector<Task<void>> workers;
  const std::size_t enough = std::min(at_once, count);
  workers.reserve(enough);
  while (workers.size() < enough) workers.push_back(take_places(places));
  co_await gather(std::move(workers));
  co_return places.ended;
}

Task<void> gather(std::vector<Task<void>> tasks) {
  if (tasks.empty()) co_return;
  const auto executor = co_await asio::this_coro::executor;
  using Start = decltype(asio::co_spawn(executor, std::move(tasks.front()), asio::deferred));
  std::vector<Start> starts;
  starts.reserve(tasks.size());
  for (Task<void>& task : tasks)
    starts.push_back(asio::co_spawn(executor, std::move(task), asio::deferred));
  const auto [order, errors] =
      co_await await_group(asio::experimental::make_parallel_group(std::move(starts)),
                           asio::experimental::wait_for_one_error());
  for (const std::size_t ended : order)
    if (errors[ended]) std::rethrow_exception(errors[ended]);
}

namespace detail {

Task<std::size_t> run_first(Task<void> one, Task<void> other) {
  const auto executor = co_await asio::this_coro::executor;
  const auto [order, one_threw, other_threw] =
      co_await await_group(asio::experimental::make_parallel_group(
                               asio::co_spawn(executor, std::move(one), asio::deferred),
                               asio::co_spawn(executor, std::move(other), asio::deferred)),
                           asio::experimental::wait_for_one());
  const std::size_t first = order.front();
  if (const auto& error = first == 0 ? one_threw : other_threw) std::rethrow_exception(error);
  co_return first;
}

}  // namespace detail

}  // namespace tarn
