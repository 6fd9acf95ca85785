#include "cli/job_wait.h"

#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "cli/printing.h"
#include "cli/progress.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

/// What all targets together say of a job.
struct JobFigures {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  bool ended = false;
  std::string error;
};

std::uint64_t number_in(const ordered_json& stats, const char* key) {
  return parse_u64(stats.value(key, "")).value_or(0);
}

/// Reads the answer to what=qryxstats: {"<target>":[snap]}.
Result<JobFigures> figures_of(const std::string& body) {
  JobFigures out;
  out.ended = true;
  try {
    const auto answer = ordered_json::parse(body);
    for (const auto& [target, snaps] : answer.items())
      for (const auto& snap : snaps) {
        out.objects += number_in(snap.at("stats"), "loc-objs");
        out.bytes += number_in(snap.at("stats"), "loc-bytes");
        out.ended = out.ended && snap.at("is_idle").get<bool>();
        if (snap.at("aborted").get<bool>()) out.error = "it was stopped";
        if (const auto error = snap.value("err", ""); !error.empty()) out.error = error;
      }
  } catch (const ordered_json::exception& problem) {
    return fail(Errc::io, "the answer about the job cannot be read: {}", problem.what());
  }
  return out;
}

Task<Result<JobFigures>> wait_for_job(Session& session, std::string id, Meter& meter) {
  constexpr std::chrono::milliseconds kPollMax{500};
  const std::string question = ordered_json{{"id", id}}.dump();
  for (std::chrono::milliseconds pause{20};; pause = std::min(pause * 2, kPollMax)) {
    const auto answer =
        co_await session.call(http::Method::get, "/v1/cluster?what=qryxstats", question);
    if (!answer && answer.error().code == Errc::bucket_not_found)
      co_return fail(Errc::unavailable,
                     "the proxy that ran job {} was started again, and the job has ended", id);
    if (!answer) co_return fail(answer.error());
    CO_TRY(const JobFigures figures, figures_of(answer->body));
    meter.at(figures.bytes);
    if (figures.ended) co_return figures;
    asio::steady_timer timer(co_await asio::this_coro::executor, pause);
    static_cast<void>(co_await timer.async_wait(kTuple));
  }
}

}  // namespace

Exit tell_of_job(Session& session, const char* command, const std::string& id,
                 const JobWords& words, const GlobalOptions& options) {
  if (words.no_wait) {
    if (options.json)
      print_json({{"job", id}});
    else
      fmt::print("{}\n", id);
    return Exit::ok;
  }
  Progress progress(command, progress_style(options.quiet));
  Result<JobFigures> done;
  {
    Progress::Line line(progress, words.line);
    done = session.run(wait_for_job(session, id, line.meter()));
  }
  progress.finish();
  if (!done) return complain(command, done.error());
  if (!done->error.empty())
    return complain(command, {Errc::io, fmt::format("job {}: {}", id, done->error)});
  if (options.json)
    print_json({{"job", id}, {"objects", done->objects}, {"bytes", done->bytes}});
  else if (!options.quiet)
    fmt::print("{} {} objects, {}\n", words.done, done->objects, readable_size(done->bytes));
  return Exit::ok;
}

}  // namespace tarn::cli
