#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/api/bucket.h"
#include "common/api/bucket_copy.h"
#include "common/base/error.h"

// A job and its changes of state (docs/decisions/015). Pure.
namespace tarn::proxy {

/// Work that a job has done on one target so far.
struct JobPart {
  using Sent = api::CopyProgress::Sent;
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::int64_t ended_ns = 0;  ///< wall clock; 0 while it runs
  Sent out = {};              ///< of `objects`, those that went to other targets
  Sent in = {};               ///< objects that came from other targets
  /// `out` by the id of the other target; not kept in the meta store.
  std::map<std::string, Sent> sent = {};
};

/// One start of one proxy: the driver of a job.
struct JobDriver {
  std::string proxy;              ///< empty: no proxy
  std::uint64_t incarnation = 0;  ///< Membership::incarnation()
  bool operator==(const JobDriver&) const = default;
};

enum class JobState : std::uint8_t {
  pending,   ///< no proxy has taken it yet
  running,   ///< a proxy drives it, or did: then another takes it
  stopping,  ///< about to end without its work done
  done,
  aborted,  ///< stopped, or replaced by a newer job
  failed
};
[[nodiscard]] std::string_view to_string(JobState state);

/// Work that goes on after the request that asked for it was answered: AIStore's "xaction". Its
/// record lies in the meta store from before its id is returned until it is one of too many that
/// have ended.
struct Job {
  std::string id;
  std::string kind;  ///< AIStore's: "summary-bck"
  std::optional<api::Bucket> bucket;
  std::optional<api::Bucket> to;         ///< of a copy or rename
  std::string about;                     ///< its work, in a few words, for people
  std::string order;                     ///< JSON: input of its driver, by kind
  JobDriver driver;                      ///< the proxy that drives it, or did last
  std::uint64_t runs = 0;                ///< number of its begins
  std::int64_t started_ns = 0;           ///< wall clock
  std::int64_t ended_ns = 0;             ///< 0 until it has ended
  std::string error;                     ///< reason if it ended without its work done
  bool stop_asked = false;               ///< by a user
  bool aborted = false;                  ///< true if it ended so
  std::string abort_reason;              ///< of an aborted job
  std::map<std::string, JobPart> parts;  ///< by id of the target
  std::vector<std::string> results;      ///< of a summary: the JSON of each bucket that is done
  /// Time that its work takes yet, if its driver knows.
  std::optional<double> seconds_left = {};

  [[nodiscard]] bool is_running() const { return ended_ns == 0; }
};

[[nodiscard]] JobState state_of(const Job& job);

// The changes of state. One that is not allowed leaves the job alone, and returns false.

/// `driver` begins its work, or begins it again after another driver: the work of its parts is
/// counted anew.
bool take(Job& job, const JobDriver& driver);
/// Notes that a user wants it to end. False if it has ended or was asked to before.
bool ask_to_stop(Job& job);
/// Notes the result of its work, at `now_ns`: done, also when it was asked to stop meanwhile;
/// aborted when it was, or when it ended by itself with `cancelled`, whose message is the reason;
/// else failed. All its parts end with it.
bool end(Job& job, const Status& result, std::int64_t now_ns);

/// Takes a target's report about its part into the job, `in` of the other parts too. `ended_ns`: 0
/// while the part runs.
void take_progress(Job& job, const std::string& target, const api::CopyProgress& progress,
                   std::int64_t ended_ns);

/// JSON as it lies in the meta store, and as proxies send it to each other.
[[nodiscard]] std::string encode(const Job& job);
/// corrupt for a text that is no job.
[[nodiscard]] Result<Job> decode_job(std::string_view text);

}  // namespace tarn::proxy
