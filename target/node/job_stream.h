#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "common/base/gather.h"
#include "common/base/read_json.h"
#include "target/node/node.h"

namespace tarn::target {

/// The id of a job in an order that has nothing else. invalid_argument for anything else.
[[nodiscard]] inline Result<std::string> job_in(const std::string& body) {
  return read_json(Errc::invalid_argument, "order of a job",
                   [&] { return nlohmann::json::parse(body).at("job").get<std::string>(); });
}

/// Progress of a job for the node that began it: a line four times a second, until it has ended.
/// The job is stopped when that node no longer reads. All on one loop.
class JobLines {
 public:
  /// `line`: how far the job is, without line feed.
  JobLines(const asio::any_io_executor& executor, std::function<std::string()> line)
      : wake_(executor), line_(std::move(line)) {}

  [[nodiscard]] std::stop_source stop() const { return stop_; }
  /// The job has ended: one line more, and send() returns.
  void end() {
    ended_ = true;
    wake_.cancel();
  }
  Task<Status> send(http::Exchange& exchange) {
    constexpr std::chrono::milliseconds kEvery{250};
    while (true) {
      const bool last = ended_;
      const Status sent = co_await exchange.write(line_() + "\n");
      if (!sent || exchange.closing()) stop_.request_stop();
      if (!sent) co_return sent;
      if (last) co_return co_await exchange.finish();
      if (ended_) continue;
      wake_.expires_after(kEvery);
      static_cast<void>(co_await wake_.async_wait(kTuple));
    }
  }

 private:
  std::stop_source stop_;
  asio::steady_timer wake_;
  std::function<std::string()> line_;
  bool ended_ = false;
};

/// Answers a call that starts a job with its lines of progress, until it ends. `job` has run() and
/// lines(), whose end() run() calls; stop_job() finds it by `id` meanwhile. conflict when a job of
/// that id runs here. `job` must outlive the task.
template <class Job>
Task<Status> stream_job(TargetNode& node, http::Request& request, std::string id, Job& job) {
  JobLines& lines = job.lines();
  const auto known = node.running_jobs.add(id, lines.stop());
  if (!known) co_return fail(Errc::conflict, "job {} runs here already", id);
  CO_TRY_OK(co_await request.exchange.begin(http::Response(200, "application/x-ndjson", ""),
                                            std::nullopt));
  std::vector<Task<Status>> both;
  both.push_back(job.run());
  both.push_back(lines.send(request.exchange));
  const auto results = co_await gather(std::move(both));
  co_return results.back();
}

/// Ends a streamed job of any kind: `job=ID` in the query, on the internal listener.
Task<Status> stop_job(TargetNode& node, http::Request& request);

}  // namespace tarn::target
