#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/base/patience.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/client.h"
#include "common/http/loops.h"

namespace tarn::cli {

/// Options that stand before or after any command.
struct GlobalOptions {
  std::string endpoint;   ///< as the user wrote it
  std::string retry_for;  ///< without progress; empty: the default of the command, or 30s
  bool json = false;
  bool quiet = false;    ///< no progress, no closing lines on stderr; errors only
  bool literal = false;  ///< names are not templates
};

/// An answer whose body is still to be read, or 100 Continue.
struct Opened {
  http::ClientStream stream;
  http::ClientResponse head;
};

/// A command's way to the cluster: one loop for calls, and one for each of several transfers, so
/// that a coroutine may block on its file. Methods may be called on any of these loops.
class Session {
 public:
  /// invalid_argument when the endpoint is no http URL, or a duration is none.
  [[nodiscard]] static Result<std::unique_ptr<Session>> open(const GlobalOptions& options);
  Session(http::Url endpoint, std::chrono::milliseconds retry_for)
      : endpoint_(std::move(endpoint)), retry_for_(retry_for) {}

  /// Runs a coroutine on the loop, to its end.
  template <class T>
  T run(Task<T> task) {
    std::optional<T> out;
    run_to_end(keep(std::move(task), out));
    return std::move(*out);
  }

  /// Runs `worker(i)` for every i below `count`, each on a loop of its own, where it may block.
  /// Returns when all have ended. Not from a loop.
  void run_workers(std::size_t count, const std::function<Task<void>(std::size_t)>& worker);

  /// A Patience for one transfer: it stops at once only when no node has answered this session.
  [[nodiscard]] Patience patience() const { return Patience(retry_for_, heard_); }
  [[nodiscard]] const http::Url& endpoint() const { return endpoint_; }

  /// Sets a hint that is printed once after a command that found something missing.
  void advise(std::string advice) { advice_ = std::move(advice); }
  [[nodiscard]] const std::string& advice() const { return advice_; }

  /// One call of the API at the endpoint, repeated while the cluster answers that it is not ready.
  /// An answer of 400 or more is an error. `repeated` is set when the call was retried: the refusal
  /// of a retry may be the effect of an earlier attempt.
  Task<Result<http::ClientResponse>> call(http::Method method, std::string target,
                                          std::string body = {}, bool* repeated = nullptr);
  /// One GET at a node, once, with `limit` for all of it.
  Task<Result<http::ClientResponse>> ask_node(std::string node_url, std::string target,
                                              std::chrono::milliseconds limit);
  /// Sends the head of a request to the endpoint and follows redirects until a node takes it. An
  /// answer of 400 or more is an error. `stall`: time without data that is allowed; the answer to a
  /// PUT comes when gigabytes have been synced to a busy drive.
  Task<Result<Opened>> open(http::ClientRequest request, std::optional<std::uint64_t> length,
                            Patience& patience,
                            std::chrono::milliseconds stall = std::chrono::minutes(2));

 private:
  template <class T>
  static Task<void> keep(Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }
  void run_to_end(Task<void> task);
  void heard(Patience& patience, const http::ClientResponse& answer);
  Task<Result<Opened>> open_at(http::Url url, http::ClientRequest request,
                               std::optional<std::uint64_t> length,
                               std::chrono::milliseconds stall);

  http::Url endpoint_;
  std::chrono::milliseconds retry_for_;
  http::Loops loops_{1};
  http::Client client_;
  std::atomic<bool> heard_ = false;
  std::string advice_;
};

/// The error that an answer of 400 or more stands for.
[[nodiscard]] Error error_of(const http::ClientResponse& answer);
/// Reads the rest of a refusal: at most 64 KiB.
Task<Error> refusal(Opened& refused);

}  // namespace tarn::cli
