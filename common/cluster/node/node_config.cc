#include "common/cluster/node/node_config.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/node_file.h"
#include "common/obs/log.h"

namespace tarn::cluster {

using nlohmann::json;

namespace {

constexpr const char* kFile = "config.json";

}  // namespace

NodeConfig::NodeConfig(std::filesystem::path directory, std::map<std::string, std::string> started)
    : directory_(std::move(directory)), started_(std::move(started)), in_force_(started_) {}

void NodeConfig::act_on(const std::string& name, std::function<void(const std::string& text)> act) {
  actions_[name] = std::move(act);
}

Status NodeConfig::load() {
  TRY(const std::string text, load_node_text(directory_, kFile));
  if (text.empty()) return {};
  const json read = json::parse(text, nullptr, false);
  if (!read.is_object())
    return fail(Errc::corrupt, "{}/config.json is no JSON object", directory_.string());
  const MutexLock lock(mutex_);
  own_ = stored_values(read);
  put_in_force();
  return {};
}

void NodeConfig::take(const ClusterConfig& config) {
  const MutexLock lock(mutex_);
  if (config.version <= cluster_.version) return;
  cluster_ = config;
  put_in_force();
}

Status NodeConfig::set(const ConfigChange& change) {
  const MutexLock lock(mutex_);
  TRY_OK(check_for_one_node(change.values));
  TRY(auto checked, checked_config(change.values));
  TRY_OK(with_config(values_locked(), checked));  // together with all other values in force
  ConfigValues& kept = change.transient ? transient_ : own_;
  ConfigValues next = kept;
  for (auto& [name, value] : checked) {
    if (!change.transient) transient_.erase(name);
    next[name] = std::move(value);
  }
  if (!change.transient) {
    json out = json::object();
    for (const auto& [name, value] : next) out[name] = json::parse(value, nullptr, false);
    TRY_OK(save_node_text(directory_, kFile, out.dump(1) + "\n"));
  }
  kept = std::move(next);
  put_in_force();
  return {};
}

Status NodeConfig::reset() {
  const MutexLock lock(mutex_);
  if (!own_.empty()) TRY_OK(save_node_text(directory_, kFile, "{}\n"));
  own_.clear();
  transient_.clear();
  put_in_force();
  return {};
}

ConfigValues NodeConfig::values() const {
  const MutexLock lock(mutex_);
  return values_locked();
}

ConfigValues NodeConfig::values_locked() const {
  ConfigValues out;
  for (const auto& [name, text] : started_) out[name] = json(text).dump();
  for (const ConfigValues* from : {&cluster_.values, &own_, &transient_})
    for (const auto& [name, value] : *from) out[name] = value;
  return out;
}

void NodeConfig::put_in_force() {
  const ConfigValues now = values_locked();
  for (auto& [name, before] : in_force_) {
    const std::string text = config_text(now.at(name));
    if (text == before) continue;
    obs::log("node").warn("setting changed name={} value={} before={}", name, text, before);
    before = text;
    if (const auto act = actions_.find(name); act != actions_.end()) act->second(text);
  }
}

}  // namespace tarn::cluster
