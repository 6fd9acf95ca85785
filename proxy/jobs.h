#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/api/bucket.h"
#include "common/api/bucket_copy.h"
#include "common/base/clock.h"

namespace tarn::proxy {

/// What a job has done on one target so far.
struct JobPart {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::int64_t ended_ns = 0;  ///< wall clock; 0 while it runs
  /// Of `objects`, those that went to another target, by its id.
  std::map<std::string, api::CopyProgress::Sent> sent = {};
};

/// Something that goes on after the request that asked for it was answered: AIStore's "xaction".
struct Job {
  std::string id;
  std::string kind;  ///< AIStore's: "summary-bck"
  std::optional<api::Bucket> bucket;
  std::optional<api::Bucket> to;         ///< of a copy or rename
  std::string about;                     ///< what it does, in a few words, for people
  std::int64_t started_ns = 0;           ///< wall clock
  std::int64_t ended_ns = 0;             ///< 0 while it runs
  std::string error;                     ///< why it ended without its work done
  bool stop_asked = false;               ///< by a user
  bool aborted = false;                  ///< it ended because of that
  std::map<std::string, JobPart> parts;  ///< by id of the target
  std::vector<std::string> results;      ///< of a summary: the JSON of each bucket that is done

  [[nodiscard]] bool is_running() const { return ended_ns == 0; }
};

/// The jobs of this proxy, those that run and the last that ended, in memory; other proxies ask it
/// for them (peer_jobs.h). A restart forgets them, and ends those that ran. Thread-safe.
class Jobs {
 public:
  static constexpr std::size_t kRunningMax = 100;
  static constexpr std::size_t kEndedKept = 1000;

  explicit Jobs(Clock& clock) : clock_(clock) {}

  /// Why a job may not start beside one that runs; empty when it may.
  using Refusal = std::function<std::string(const Job& running)>;
  /// Gives `job` an id and a start, and returns the id. conflict when `refuse`, asked under the
  /// lock, refuses it; unavailable when kRunningMax are running.
  [[nodiscard]] Result<std::string> start(
      Job job, const Refusal& refuse = [](const Job&) { return ""; });
  /// Shows the job to `change`, under the lock. Does nothing when it is not known any more.
  void update(const std::string& id, const std::function<void(Job&)>& change);
  /// Ends it and all its parts; `error` is empty when its work was done. One that was asked to stop
  /// ends as aborted, unless its work was done. Nothing is changed of one that has ended.
  void end(const std::string& id, std::string error);
  /// Asks a job that runs to stop: whoever does its work looks.
  void ask_to_stop(const std::string& id);
  [[nodiscard]] bool should_stop(const std::string& id) const;
  /// A job that came to nothing, before anybody heard of it.
  void forget(const std::string& id);

  [[nodiscard]] std::optional<Job> find(const std::string& id) const;
  /// All, in the order they started.
  [[nodiscard]] std::vector<Job> all() const;

 private:
  Clock& clock_;
  mutable std::mutex mutex_;
  std::deque<Job> jobs_;
};

/// The kind that AIStore shows under `name`, "copy-bck" for "copy-bucket"; `name` itself when it is
/// shown under no other.
[[nodiscard]] std::string kind_of(const std::string& name);

}  // namespace tarn::proxy
