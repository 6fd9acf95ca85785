#include "cli/transfer/batch.h"

#include <algorithm>
#include <atomic>
#include <map>

#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "common/base/mutex.h"

namespace tarn::cli {
namespace {

/// State that the workers of one batch share.
struct Shared {
  Progress& progress;
  std::size_t count;
  const std::function<std::string(std::size_t)>& name;
  const std::function<Task<Result<ItemDone>>(std::size_t, Meter&)>& item;

  std::atomic<std::size_t> next = 0;
  Mutex mutex;
  BatchResult result TARN_GUARDED_BY(mutex);
  std::map<std::size_t, BatchResult::Failure> failures TARN_GUARDED_BY(mutex);

  void take(std::size_t index, const Result<ItemDone>& came) {
    if (!came) progress.complain(came.error());
    const MutexLock lock(mutex);
    if (!came) {
      failures[index] = {name(index), came.error().message};
      result.last_failure = exit_for(came.error().code);
      return;
    }
    ++(came->outcome == ItemDone::Outcome::done ? result.done : result.skipped);
    result.bytes += came->bytes;
  }
  /// Result of the whole batch, once the workers have ended.
  BatchResult all() {
    const MutexLock lock(mutex);
    for (auto& [index, failure] : failures) result.failures.push_back(std::move(failure));
    return std::move(result);
  }
};

Task<void> work(Shared& shared) {
  for (std::size_t index = shared.next++; index < shared.count; index = shared.next++) {
    Progress::Line line(shared.progress, shared.name(index));
    const auto came = co_await shared.item(index, line.meter());
    shared.take(index, came);
  }
}

}  // namespace

Exit BatchResult::exit() const {
  if (failures.empty()) return Exit::ok;
  return done + skipped > 0 ? Exit::partial : last_failure;
}

nlohmann::ordered_json BatchResult::json() const {
  auto failed = nlohmann::ordered_json::array();
  for (const Failure& each : failures)
    failed.push_back({{"name", each.name}, {"error", each.message}});
  return {{"done", done},   {"skipped", skipped}, {"failed", failures.size()},
          {"bytes", bytes}, {"seconds", seconds}, {"failures", failed}};
}

std::string BatchResult::summary(const std::string& done_word) const {
  const double rate = seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  return fmt::format("{} {} ({} in {:.1f} s, {}/s), {} skipped, {} failed", done, done_word,
                     readable_size(bytes), seconds, readable_size(static_cast<std::uint64_t>(rate)),
                     skipped, failures.size());
}

BatchResult run_batch(Session& session, Progress& progress, std::size_t count, unsigned jobs,
                      const std::function<std::string(std::size_t)>& name,
                      const std::function<Task<Result<ItemDone>>(std::size_t, Meter&)>& item) {
  Shared shared{progress, count, name, item, {}, {}, {}, {}};
  const auto start = std::chrono::steady_clock::now();
  const std::size_t workers = std::min<std::size_t>(count, std::clamp(jobs, 1U, kJobsMax));
  session.run_workers(workers, [&shared](std::size_t) { return work(shared); });
  BatchResult result = shared.all();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace tarn::cli
