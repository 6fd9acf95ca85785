#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/mutex.h"
#include "common/base/snapshot.h"
#include "common/cluster/state/cluster_view.h"
#include "common/http/client.h"
#include "common/http/loops.h"
#include "common/obs/metrics.h"
#include "common/security/node_auth.h"
#include "proxy/watch/least_busy.h"

namespace tarn::proxy {

/// Targets that answer now, and their load.
struct Answering {
  std::set<std::string> suspects;  ///< ids of those that do not
  /// The last report of each, by id.
  std::map<std::string, std::shared_ptr<const Snapshot<LoadReport>>> loads = {};
  /// By id; true while it is a suspect. They live as long as the Suspects.
  std::map<std::string, const std::atomic<bool>*> silence = {};

  [[nodiscard]] bool contains(const std::string& id) const { return !suspects.contains(id); }
  /// For CallLimits: becomes true when a target that answers now does not any more. Null for one
  /// that does not.
  [[nodiscard]] const std::atomic<bool>* silence_of(const std::string& id) const {
    const auto its = silence.find(id);
    return contains(id) && its != silence.end() ? its->second : nullptr;
  }
};

/// Knows the targets that answer. Holds a long-lived call, `GET /v1/internal/heartbeat`, to each
/// registered target, on which it writes a line a second:
///
///   {"ready":true,"map":12,"bmd":3,"drives":[[1234567890123,2],[9876543210987,null]]}
///
/// The last has for each drive the placement digest of its path and its load (LoadReport).
///
/// A target is suspect from the moment that stream ends or is refused (a killed process: at once),
/// and when no line came for `suspect.after` (a stopped process, a cut network). It is also suspect
/// while it reports not ready, and before its first line if it was in the map when we started. One
/// that joins later was ready when it joined. It is trusted again with the next line that is ready.
/// Thread-safe between start() and stop().
class Suspects {
 public:
  Suspects(cluster::ClusterView& view, http::Client& client, const security::NodeAuth& auth,
           obs::Metrics& metrics, std::chrono::milliseconds silence_max);
  ~Suspects();

  /// Begins to follow all targets of the map, also those that join later. The view must have loaded
  /// and must not follow any more when this object goes.
  void start(http::Loop& loop);
  /// Ends all calls and waits for that. Not from a loop. False when some have not ended in time.
  bool stop();

  /// Taken once a request, as the cluster's state is.
  [[nodiscard]] std::shared_ptr<const Answering> answering() const { return answering_.get(); }

 private:
  void follow_new(const cluster::ClusterState& state);
  Task<void> follow(std::string id);
  Task<Status> listen(std::string id, std::string url);
  void set_answering(const std::string& id, bool answers, std::string_view reason);
  void take_load(const std::string& id, const std::vector<LoadReport::OfDrive>& drives);
  [[nodiscard]] std::string url_of(const std::string& id) const;

  cluster::ClusterView& view_;
  http::Client& client_;
  const security::NodeAuth& auth_;
  obs::Metrics& metrics_;
  const std::chrono::milliseconds silence_max_;
  http::Loop* loop_ = nullptr;
  http::TaskGroup tasks_;
  Snapshot<Answering> answering_;
  std::map<std::string, std::shared_ptr<Snapshot<LoadReport>>> loads_;  // only loop_
  std::map<std::string, std::atomic<bool>> silence_;                    // of all there ever were
  Mutex mutex_;
  std::set<std::string> followed_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::proxy
