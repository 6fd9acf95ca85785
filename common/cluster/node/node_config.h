#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/cluster/state/cluster_config.h"

namespace tarn::cluster {

/// Settings in force on one node, from four sources; the last one that has a setting wins: the
/// program's start (defaults and --set), changes for the cluster, changes for this node (kept in
/// config.json of its directory), and transient changes. Thread-safe.
class NodeConfig {
 public:
  /// `started`: the value that each setting has at the start, by its name, as text; settings that
  /// are not there mean nothing to this program.
  NodeConfig(std::filesystem::path directory, std::map<std::string, std::string> started);

  /// Calls `act` with the text of a setting ("75s") whenever it changes, on whatever thread changes
  /// it; it must not call back. Before load().
  void act_on(const std::string& name, std::function<void(const std::string& text)> act);
  /// Reads the earlier changes of this node. corrupt, naming the file, when it cannot be
  /// understood.
  Status load();
  /// Takes the changes for the cluster; an older version than the last one changes nothing.
  void take(const ClusterConfig& config);
  /// Applies `change` to this node, all of it or nothing. Errors as with_config(), and io.
  Status set(const ConfigChange& change);
  /// Forgets all changes for this node.
  Status reset();
  /// Values in force, those that were set here or at the start included.
  [[nodiscard]] ConfigValues values() const;

 private:
  [[nodiscard]] ConfigValues values_locked() const TARN_REQUIRES(mutex_);
  void put_in_force() TARN_REQUIRES(mutex_);

  const std::filesystem::path directory_;
  const std::map<std::string, std::string> started_;
  std::map<std::string, std::function<void(const std::string&)>> actions_;
  mutable Mutex mutex_;  // held also while actions are called, so that they come in order
  ClusterConfig cluster_ TARN_GUARDED_BY(mutex_);
  ConfigValues own_ TARN_GUARDED_BY(mutex_);
  ConfigValues transient_ TARN_GUARDED_BY(mutex_);
  std::map<std::string, std::string> in_force_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::cluster
