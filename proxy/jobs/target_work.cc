#include "proxy/jobs/target_work.h"

#include <array>
#include <utility>

#include "common/api/status.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "proxy/core/targets.h"
#include "proxy/jobs/jobs.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

/// A target sends a line four times a second, independent of its drives.
constexpr http::CallLimits kTargetWorkLimits{.stall = 20s};
constexpr std::size_t kTargetWorkLineBytesMax = 1U << 20U;
constexpr auto kAgainAfter = 500ms;

/// State that all parts of one job share; they run on one loop.
struct Watch {
  const std::string job;
  const TargetWork work;
  const bool again;     // some of it may have been done before
  bool failed = false;  // the other parts need not go on
};

Error told_to_stop() { return {Errc::cancelled, "the job was told to stop"}; }

/// Follows one target.
class TargetWorkPart {
 public:
  TargetWorkPart(const Services& services, Watch& watch, std::string target)
      : services_(services), watch_(watch), target_(std::move(target)) {}

  /// Follows it to its good end, or an error that no repetition mends.
  Task<Status> follow();

 private:
  Task<Result<bool>> attempt();
  Task<Result<http::ClientStream>> begin(const cluster::Node& node);
  Task<Result<bool>> read_lines(const cluster::Node& node, http::ClientStream& stream);
  Task<Result<bool>> not_begun(const cluster::Node& node, unsigned status,
                               http::ClientStream& stream);
  Result<bool> take_line(const std::string& line);
  Task<void> stop(const cluster::Node& node);
  bool again(std::string why) {
    problem_ = std::move(why);
    return false;
  }
  [[nodiscard]] bool is_to_stop() const {
    return watch_.failed || services_.jobs.should_stop(watch_.job);
  }
  [[nodiscard]] Error lost_patience() const;

  const Services& services_;
  Watch& watch_;
  const std::string target_;
  std::string problem_;      // reason if it has to be asked again
  std::uint64_t best_ = 0;   // the most objects that an attempt came to
  BootTime last_advance_{};  // time at which it came there
  bool asked_before_ = false;
};

Error TargetWorkPart::lost_patience() const {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(services_.options.job_patience);
  return {Errc::unavailable,
          fmt::format("target t[{}] got no further for {} s (job.patience): {}. What it did is "
                      "done, the rest is not: start the job again when the target is well",
                      target_, seconds.count(), problem_)};
}

Task<Status> TargetWorkPart::follow() {
  last_advance_ = services_.clock.boot_time();
  while (!is_to_stop()) {
    const auto done = co_await attempt();
    if (!done && !watch_.work.continue_on_error) watch_.failed = true;
    if (!done) co_return fail(done.error());
    if (*done) co_return Status();
    if (services_.clock.boot_time() - last_advance_ > services_.options.job_patience) {
      watch_.failed = true;
      co_return fail(lost_patience());
    }
    asked_before_ = true;
    co_await pause(kAgainAfter);
    const bool ours = co_await services_.jobs.is_ours(watch_.job);
    if (!ours) co_return fail(Errc::cancelled, "another proxy drives the job now");
  }
  co_return fail(told_to_stop());
}

/// True: its part is done. False: to be asked again.
Task<Result<bool>> TargetWorkPart::attempt() {
  const auto state = services_.view.state();
  const cluster::Node* node = state->map.find(target_);
  if (node == nullptr)
    co_return fail(Errc::not_found, "target t[{}] is not in the cluster any more", target_);
  auto stream = co_await begin(*node);
  if (!stream) co_return again(stream.error().message);
  const auto head = co_await stream->read_head();
  if (!head) co_return again(head.error().message);
  if (head->status != 200) co_return co_await not_begun(*node, head->status, *stream);
  co_return co_await read_lines(*node, *stream);
}

Task<Result<http::ClientStream>> TargetWorkPart::begin(const cluster::Node& node) {
  CO_TRY(http::Url address, http::parse_url(node.internal_url));
  json order = watch_.work.order;
  order["job"] = watch_.job;
  order["again"] = watch_.again || asked_before_;
  const std::string body = order.dump();
  http::ClientRequest request;
  request.method = http::Method::post;
  request.target = watch_.work.path;
  request.fields.push_back(
      {std::string(security::NodeAuth::kHeader), services_.auth.sign("POST", watch_.work.path)});
  CO_TRY(auto stream, co_await services_.client.open(std::move(address), std::move(request),
                                                     body.size(), kTargetWorkLimits));
  CO_TRY_OK(co_await stream.write(std::as_bytes(std::span(body))));
  CO_TRY_OK(co_await stream.finish());
  co_return stream;
}

/// An answer that is no stream of lines. A part of this job that still runs there is of an attempt
/// that is no longer followed: it has to end first.
Task<Result<bool>> TargetWorkPart::not_begun(const cluster::Node& node, unsigned status,
                                             http::ClientStream& stream) {
  std::string text;
  std::array<std::byte, 4096> buffer{};
  while (text.size() < kTargetWorkLineBytesMax) {
    const auto got = co_await stream.read_some(buffer);
    if (!got || *got == 0) break;
    text.append(reinterpret_cast<const char*>(buffer.data()), *got);
  }
  const std::string why = api::error_message_of(text);
  const Errc code = api::errc_of_answer(status, text);
  const bool runs_already = status == 409;
  if (runs_already) co_await stop(node);
  if (runs_already || code == Errc::unavailable) co_return again(why);
  co_return fail(code, "target t[{}]: {}", target_, why);
}

Task<Result<bool>> TargetWorkPart::read_lines(const cluster::Node& node,
                                              http::ClientStream& stream) {
  std::string text;
  std::array<std::byte, 4096> buffer{};
  for (bool told = false;;) {
    const auto got = co_await stream.read_some(buffer);
    if (!got) co_return again(got.error().message);
    if (*got == 0) co_return again("it ended before its part was done");
    text.append(reinterpret_cast<const char*>(buffer.data()), *got);
    if (text.size() > kTargetWorkLineBytesMax)
      co_return fail(Errc::internal, "target t[{}]: a line of more than {} bytes", target_,
                     kTargetWorkLineBytesMax);
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      CO_TRY(const bool done, take_line(text.substr(0, end)));
      // NOLINTNEXTLINE(bugprone-standalone-empty): co_return uses it
      if (done) co_return problem_.empty();
      text.erase(0, end + 1);
    }
    if (told || !is_to_stop()) continue;
    told = true;
    const bool ours = co_await services_.jobs.is_ours(watch_.job);
    if (!ours) co_return fail(Errc::cancelled, "another proxy drives the job now");
    co_await stop(node);
  }
}

/// True after its last line; if `problem_` is set then, it has to be asked again.
Result<bool> TargetWorkPart::take_line(const std::string& line) {
  TRY(const auto progress,
      parse_json<api::CopyProgress>(line, Errc::internal, fmt::format("target t[{}]", target_)));
  const BootTime now = services_.clock.boot_time();
  if (progress.objects > best_ || (progress.done && progress.error.empty())) last_advance_ = now;
  best_ = std::max(best_, progress.objects);
  // A part that failed ends with the job, which has the error: a client that sees all parts done
  // looks there.
  const bool is_good_end = progress.done && progress.error.empty();
  const auto ended = is_good_end ? services_.clock.wall_time().count() : 0;
  services_.jobs.update(watch_.job,
                        [&](Job& job) { take_progress(job, target_, progress, ended); });
  problem_ = progress.error;
  if (progress.error.empty() || progress.again) return progress.done;
  return fail(Errc::io, "target t[{}]: {}", target_, progress.error);
}

Task<void> TargetWorkPart::stop(const cluster::Node& node) {
  const std::string path = watch_.work.path + "?job=" + watch_.job;
  const auto answer = co_await call_node(services_, node, http::Method::del, path);
  if (!answer)
    obs::log("proxy").warn("job not stopped at a target job={} node={} err={}", watch_.job, node.id,
                           answer.error().message);
}

/// Stops a job that was asked to stop before this proxy began it: work of its last driver goes on
/// at targets that have not noticed that it is gone.
Task<void> stop_all(const Services& services, std::string job, TargetWork work) {
  const auto state = services.view.state();
  std::vector<Task<Result<http::ClientResponse>>> calls;
  for (const std::string& target : work.targets)
    if (const cluster::Node* node = state->map.find(target))
      calls.push_back(call_node(services, *node, http::Method::del, work.path + "?job=" + job));
  static_cast<void>(co_await gather(std::move(calls)));
}

}  // namespace

Task<Status> work_on_targets(const Services& services, const Job& job, TargetWork work) {
  if (services.jobs.should_stop(job.id)) {
    co_await stop_all(services, job.id, std::move(work));
    co_return fail(told_to_stop());
  }
  services.jobs.update(job.id, [&](Job& each) {
    each.parts.clear();
    for (const std::string& target : work.targets) each.parts[target] = {};
  });
  const bool again = job.runs > 1 || work.order.value("again", false);
  Watch watch{job.id, std::move(work), again};
  std::vector<TargetWorkPart> parts;
  parts.reserve(watch.work.targets.size());
  for (const std::string& target : watch.work.targets) parts.emplace_back(services, watch, target);
  std::vector<Task<Status>> follows;
  follows.reserve(parts.size());
  for (TargetWorkPart& part : parts) follows.push_back(part.follow());
  const auto ends = co_await gather(std::move(follows));
  // The failure of one is the reason, not the stop of the other parts.
  Status out;
  for (const Status& end : ends)
    if (!end && (out || out.error().code == Errc::cancelled)) out = end;
  co_return out;
}

Task<Status> wait_until_in_place(const Services& services, std::string job) {
  const auto patience = services.options.job_patience;
  BootTime well = services.clock.boot_time();  // time at which all targets were there last
  while (!services.jobs.should_stop(job)) {
    const auto state = services.view.state();
    if (state->map.past.empty()) co_return Status();
    CO_TRY(const auto targets, targets_that_may_hold(*state));
    std::string absent;
    for (const cluster::Node* target : targets)
      if (!state->live.contains(target->id)) absent = target->id;
    if (absent.empty()) well = services.clock.boot_time();
    if (services.clock.boot_time() - well > patience)
      co_return fail(Errc::unavailable,
                     "target t[{}] is away and may hold objects that the job did not see: start it "
                     "again when the target is back",
                     absent);
    co_await pause(kAgainAfter);
  }
  co_return fail(told_to_stop());
}

}  // namespace tarn::proxy
