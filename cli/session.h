#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include "cli/patience.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/client.h"
#include "common/http/loops.h"

namespace tarn::cli {

/// What stands before or behind any command.
struct GlobalOptions {
  std::string endpoint;           ///< as given
  std::string retry_for = "30s";  ///< without progress
  bool json = false;
};

/// An answer whose body is still to be read, or 100 Continue.
struct Opened {
  http::ClientStream stream;
  http::ClientResponse head;
};

/// A command's way to the cluster: one loop, one client. Files are read and written on the loop,
/// which nobody else uses.
class Session {
 public:
  /// invalid_argument when the endpoint is no http URL, or a duration is none.
  [[nodiscard]] static Result<std::unique_ptr<Session>> open(const GlobalOptions& options);
  Session(http::Url endpoint, std::chrono::milliseconds retry_for)
      : endpoint_(std::move(endpoint)), retry_for_(retry_for) {}

  /// Runs a coroutine on the loop, to its end.
  template <class T>
  T run(Task<T> task) {
    return asio::co_spawn(loops_.at(0).executor(), std::move(task), asio::use_future).get();
  }

  [[nodiscard]] Patience patience() const { return Patience(retry_for_); }
  [[nodiscard]] const http::Url& endpoint() const { return endpoint_; }

  /// One call of the API at the endpoint, repeated while the cluster says that it is not ready. An
  /// answer of 400 or more is an error.
  Task<Result<http::ClientResponse>> call(http::Method method, std::string target,
                                          std::string body = {});
  /// One GET at a node, once, with `limit` for all of it.
  Task<Result<http::ClientResponse>> ask_node(std::string node_url, std::string target,
                                              std::chrono::milliseconds limit);
  /// Sends the head of a request to the endpoint and follows redirects until somebody takes it. An
  /// answer of 400 or more is an error.
  Task<Result<Opened>> open(http::ClientRequest request, std::optional<std::uint64_t> length,
                            Patience& patience);

 private:
  Task<Result<Opened>> open_at(http::Url url, http::ClientRequest request,
                               std::optional<std::uint64_t> length);

  http::Url endpoint_;
  std::chrono::milliseconds retry_for_;
  http::Loops loops_{1};
  http::Client client_;
};

/// The error that an answer of 400 or more stands for.
[[nodiscard]] Error error_of(const http::ClientResponse& answer);
/// Reads the rest of a refusal: at most 64 KiB.
Task<Error> refusal(Opened& refused);

}  // namespace tarn::cli
