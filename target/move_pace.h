#pragma once

#include <cstdint>
#include <exception>
#include <stop_token>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "target/moves.h"

namespace tarn::target {

/// What a walk obeys before each block that it moves. For the walk's loop.
struct Pace {
  MoveLimits& limits;
  const Moves::Walk& walk;
  Clock& clock;
  std::stop_token stop;

  /// cancelled when it was told to stop, conflict when another walk takes over.
  [[nodiscard]] Status go_on() const;
  /// Waits until `bytes` may pass. Errors as go_on().
  Task<Status> pass(std::uint64_t bytes) const;
  /// Returns when go_on() fails, with its error.
  Task<Status> until_ended() const;
};

/// `work`, a call to another node, which is given up as soon as go_on() fails: a process that
/// stands still holds up the walk for no longer than its lease.
template <class T>
Task<Result<T>> while_walking(const Pace& pace, Task<Result<T>> work) {
  const auto executor = co_await asio::this_coro::executor;
  auto [order, work_threw, done, watch_threw, ended] =
      co_await asio::experimental::make_parallel_group(
          asio::co_spawn(executor, std::move(work), asio::deferred),
          asio::co_spawn(executor, pace.until_ended(), asio::deferred))
          .async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  const bool worked = order.front() == 0;
  if (worked && work_threw) std::rethrow_exception(work_threw);
  if (!worked && watch_threw) std::rethrow_exception(watch_threw);
  if (worked) co_return std::move(done);
  co_return fail(ended.error());
}

}  // namespace tarn::target
