#include "proxy/jobs.h"

#include <algorithm>

#include "common/base/random.h"

namespace tarn::proxy {
namespace {

constexpr std::size_t kIdLength = 10;  // AIStore's clients want nine at least

/// AIStore's names for people, and its kinds (aistore-api.md, section 3.3).
constexpr std::pair<std::string_view, std::string_view> kShownAs[] = {
    {"lru-eviction", "lru"},
    {"cleanup", "cleanup-store"},
    {"warm-up-metadata", "load-lom-cache"},
    {"mirror", "make-n-copies"},
    {"ec-bucket", "ec-encode"},
    {"prefetch-objects", "prefetch-listrange"},
    {"copy-bucket", "copy-bck"},
    {"etl-bucket", "etl-bck"},
    {"rename-bucket", "move-bck"},
    {"copy-objects", "copy-listrange"},
    {"etl-objects", "etl-listrange"},
    {"delete-objects", "delete-listrange"},
    {"evict-objects", "evict-listrange"},
    {"evict-remote-bucket", "evict-remote-bck"},
    {"summary", "summary-bck"},
    {"shard-summary", "summary-shard"},
    {"shard-index", "index-shard"},
    {"promote-files", "promote"},
    {"elect-primary", "election"},
};

}  // namespace

Result<std::string> Jobs::start(Job job, const Refusal& refuse) {
  job.id = random_id(kIdLength);
  job.started_ns = clock_.wall_time().count();
  const std::lock_guard lock(mutex_);
  for (const Job& each : jobs_) {
    std::string why = each.is_running() ? refuse(each) : "";
    if (!why.empty()) return fail(Error{Errc::conflict, std::move(why)});
  }
  const auto running =
      std::count_if(jobs_.begin(), jobs_.end(), [](const Job& each) { return each.is_running(); });
  if (running >= static_cast<std::ptrdiff_t>(kRunningMax))
    return fail(Errc::unavailable, "{} jobs are running already; try again soon", running);
  const auto ended = jobs_.size() - static_cast<std::size_t>(running);
  if (ended >= kEndedKept)
    jobs_.erase(std::find_if(jobs_.begin(), jobs_.end(),
                             [](const Job& each) { return !each.is_running(); }));
  jobs_.push_back(std::move(job));
  return jobs_.back().id;
}

void Jobs::update(const std::string& id, const std::function<void(Job&)>& change) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& each) { return each.id == id; });
  if (found != jobs_.end()) change(*found);
}

void Jobs::end(const std::string& id, std::string error) {
  const auto now = clock_.wall_time().count();
  update(id, [&](Job& job) {
    if (!job.is_running()) return;
    job.ended_ns = now;
    job.aborted = job.stop_asked && !error.empty();
    if (!job.aborted) job.error = std::move(error);
    for (auto& [target, part] : job.parts)
      if (part.ended_ns == 0) part.ended_ns = now;
  });
}

void Jobs::ask_to_stop(const std::string& id) {
  update(id, [](Job& job) {
    if (job.is_running()) job.stop_asked = true;
  });
}

bool Jobs::should_stop(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& each) { return each.id == id; });
  return found != jobs_.end() && found->stop_asked;
}

void Jobs::forget(const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const Job& each) { return each.id == id; });
}

std::optional<Job> Jobs::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& each) { return each.id == id; });
  return found == jobs_.end() ? std::nullopt : std::optional<Job>(*found);
}

std::vector<Job> Jobs::all() const {
  const std::lock_guard lock(mutex_);
  return {jobs_.begin(), jobs_.end()};
}

std::string kind_of(const std::string& name) {
  for (const auto& [shown, kind] : kShownAs)
    if (name == shown) return std::string(kind);
  return name;
}

}  // namespace tarn::proxy
