#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/mutex.h"

namespace tarn::io {

/// The threads of one drive and their queue. All work that may wait for a drive runs here and never
/// on an event loop; a drive that hangs stops its own threads only. Thread-safe.
class DriveThreads {
 public:
  /// `queue_max`: foreground work that may wait; more is refused with `unavailable`. Throws
  /// std::system_error when the process may have no further thread.
  DriveThreads(const std::string& name, std::size_t threads, std::size_t queue_max);
  /// Finishes all queued work, then joins. abandon() first when the drive hangs.
  ~DriveThreads();
  DriveThreads(const DriveThreads&) = delete;
  DriveThreads& operator=(const DriveThreads&) = delete;

  /// Work of a request that has begun goes before the first work of a new one, three times of four:
  /// admitted work gets done, and the rest waits where it can still be refused.
  enum class Order { begun, fresh };

  /// Runs `work` (returning a Result) on a thread of the drive and resumes the caller on its own
  /// executor. Not cancellable: work that has begun on a drive ends there.
  template <class Work>
  Task<std::invoke_result_t<Work>> run(Work work, Order order = Order::begun) {
    auto executor = co_await asio::this_coro::executor;
    using R = std::invoke_result_t<Work>;
    co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(R)>(
        [this, executor, order](auto handler, Work its_work) {
          enqueue(std::make_unique<AwaitedJob<R, Work, decltype(handler)>>(
                      std::move(its_work), std::move(handler), executor),
                  order);
        },
        asio::use_awaitable, std::move(work));
  }

  /// A result that will be there later: lets a caller go on while the drive works. Must be awaited
  /// (or the drive's threads must have ended) before the objects that `work` refers to go away.
  template <class R>
  class Pending {
   public:
    /// Waits for the result. Once.
    Task<R> get() {
      auto executor = co_await asio::this_coro::executor;
      auto state = std::move(state_);
      co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(R)>(
          [state, executor](auto handler) {
            auto resume = [executor, handler = std::make_shared<decltype(handler)>(
                                         std::move(handler))](R result) mutable {
              auto own = std::move(*handler);
              asio::post(executor, [own = std::move(own), result = std::move(result)]() mutable {
                own(std::move(result));
              });
            };
            const MutexLock lock(state->mutex);
            if (state->result) {
              resume(std::move(*state->result));
            } else {
              state->waiter = std::move(resume);
            }
          },
          asio::use_awaitable);
    }
    [[nodiscard]] bool valid() const { return state_ != nullptr; }

   private:
    friend class DriveThreads;
    struct State {
      Mutex mutex;
      std::optional<R> result TARN_GUARDED_BY(mutex);
      std::function<void(R)> waiter TARN_GUARDED_BY(mutex);
    };
    std::shared_ptr<State> state_;
  };

  template <class Work>
  Pending<std::invoke_result_t<Work>> start(Work work) {
    using R = std::invoke_result_t<Work>;
    Pending<R> pending;
    pending.state_ = std::make_shared<typename Pending<R>::State>();
    auto finish = [state = pending.state_](R result) {
      const MutexLock lock(state->mutex);
      if (state->waiter) {
        std::exchange(state->waiter, nullptr)(std::move(result));
      } else {
        state->result.emplace(std::move(result));
      }
    };
    enqueue(
        std::make_unique<StartedJob<R, Work, decltype(finish)>>(std::move(work), std::move(finish)),
        Order::begun);
    return pending;
  }

  /// Queues work that no caller waits for and that may not be refused: unlinks, closes. With
  /// `refused` it may be while refuse() holds: that is called instead, from any thread.
  void post(std::function<void()> work, std::function<void(Error)> refused = nullptr);
  /// Refuses with `why`, until accept(), all work that waits or comes, but for posted work that may
  /// not be refused. Work that runs goes on.
  void refuse(const Error& why);
  void accept();
  [[nodiscard]] std::size_t queued() const;
  /// Seconds that the oldest work in the queue has waited; 0 when none waits.
  [[nodiscard]] double longest_wait() const;
  /// Seconds for which the oldest work has been running; 0 when none runs.
  [[nodiscard]] double longest_run() const;
  /// Work that has ended since the start.
  [[nodiscard]] std::uint64_t completed() const;
  /// Blocks until the queue is empty and no thread works, at most `seconds`. True when it is so.
  bool drain(double seconds);
  /// Detaches the threads, when the drive hangs and the process wants to end. Their memory is
  /// leaked.
  void abandon();

 private:
  struct Job {
    virtual ~Job() = default;
    virtual void run() = 0;
    virtual void refuse(Error why) = 0;
    [[nodiscard]] virtual bool may_be_refused() const { return true; }
  };

  template <class Work>
  static std::invoke_result_t<Work> guarded(Work& work) {
    try {
      return work();
    } catch (const std::exception& problem) {
      return fail(Errc::internal, "drive work threw: {}", problem.what());
    }
  }

  template <class R, class Work, class Handler>
  struct AwaitedJob final : Job {
    AwaitedJob(Work its_work, Handler its_handler, asio::any_io_executor its_executor)
        : work(std::move(its_work)),
          handler(std::move(its_handler)),
          executor(std::move(its_executor)) {}
    void run() override { complete(guarded(work)); }
    void refuse(Error why) override { complete(tl::unexpected<Error>(std::move(why))); }
    void complete(R result) {
      // The handler travels: it may only be destroyed on its own executor.
      asio::post(executor,
                 [its_handler = std::move(handler), its_result = std::move(result)]() mutable {
                   its_handler(std::move(its_result));
                 });
    }
    Work work;
    Handler handler;
    asio::any_io_executor executor;
  };

  template <class R, class Work, class Finish>
  struct StartedJob final : Job {
    StartedJob(Work its_work, Finish its_finish)
        : work(std::move(its_work)), finish(std::move(its_finish)) {}
    void run() override { finish(guarded(work)); }
    void refuse(Error why) override { finish(tl::unexpected<Error>(std::move(why))); }
    Work work;
    Finish finish;
  };

  struct Waiting;
  struct State;
  void end();
  struct PostedJob;
  void enqueue(std::unique_ptr<Job> job, Order order);
  static void serve(const std::shared_ptr<State>& state, const std::string& name);

  std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

}  // namespace tarn::io
