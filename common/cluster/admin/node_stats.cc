#include "common/cluster/admin/node_stats.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/api/bucket.h"

namespace tarn::cluster {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, kOperations> kWords{"get", "put", "head", "append",
                                                           "del", "ren", "lst"};

std::size_t index_of(Operation operation) { return static_cast<std::size_t>(operation); }

/// True if the path names an object: below /v1/objects or a word for a provider, or as people write
/// it.
bool is_object_path(std::string_view path) {
  if (path.starts_with("/v1/objects/")) return true;
  for (const std::string_view easy : {"/ais/", "/gs/", "/az/", "/ht/"})
    if (path.starts_with(easy)) return path.substr(easy.size()).find('/') != std::string_view::npos;
  const auto first = path.substr(0, path.find('/', 1)).substr(1);
  return !first.empty() && !api::is_reserved_word(first) && !path.ends_with('/');
}

bool is_list_path(std::string_view path) {
  return path.starts_with("/v1/internal/list") || path.starts_with("/v1/buckets/");
}

bool has_word(std::string_view query, std::string_view word) {
  return query.find(word) != std::string_view::npos;
}

}  // namespace

std::optional<Operation> operation_of(http::Method method, std::string_view target) {
  const auto path = target.substr(0, target.find('?'));
  const auto query = target.substr(path.size());
  if (method == http::Method::get && is_list_path(path)) return Operation::lst;
  if (!is_object_path(path)) return std::nullopt;
  switch (method) {
    case http::Method::get: return Operation::get;
    case http::Method::head: return Operation::head;
    case http::Method::put:
      return has_word(query, "append_type=") ? Operation::append : Operation::put;
    case http::Method::del: return Operation::del;
    case http::Method::post: return Operation::ren;
    default: return std::nullopt;
  }
}

NodeStats::NodeStats(obs::Metrics& metrics, Role role, const std::string& node)
    : role_(role), cpu_last_(obs::read_cpu()), process_last_(obs::read_process()) {
  export_to(metrics, node);
}

void NodeStats::watch_disks(std::set<std::string> disks) {
  const MutexLock lock(mutex_);
  watched_ = std::move(disks);
  disks_last_ = obs::read_disks();
}

bool NodeStats::has_sizes(Operation operation) const {
  return role_ == Role::target && (operation == Operation::get || operation == Operation::put);
}

http::Observer NodeStats::observe(http::Observer next) {
  return [this, next = std::move(next)](const http::Exchange& exchange, const Status& result,
                                        std::chrono::nanoseconds took) {
    const auto operation = operation_of(exchange.head().method, exchange.head().target);
    if (operation) {
      const bool is_upload = *operation == Operation::put || *operation == Operation::append;
      const std::uint64_t bytes =
          is_upload ? exchange.body_bytes_read() : exchange.response_bytes();
      const bool was_cut = !result && exchange.response_status() < 400;
      count(*operation, was_cut ? 500 : exchange.response_status(), bytes, took);
    }
    next(exchange, result, took);
  };
}

void NodeStats::count(Operation operation, unsigned status, std::uint64_t bytes,
                      std::chrono::nanoseconds took) {
  Counters& counters = counters_[index_of(operation)];
  if (status >= 400) {
    // A 404 of a lookup is an answer; AIStore, too, does not count it among the errors.
    const bool is_lookup = operation == Operation::get || operation == Operation::head;
    if (status != 404 || !is_lookup) ++counters.errors;
    return;
  }
  ++counters.count;
  counters.nanoseconds += static_cast<std::uint64_t>(took.count());
  if (has_sizes(operation)) counters.bytes += bytes;
}

void NodeStats::reset(bool errors_only) {
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < kOperations; ++i) {
    zero_[i].errors = counters_[i].errors;
    if (errors_only) continue;
    zero_[i].count = counters_[i].count;
    zero_[i].bytes = counters_[i].bytes;
    zero_[i].nanoseconds = counters_[i].nanoseconds;
  }
}

void NodeStats::tick() {
  const auto now = std::chrono::steady_clock::now();
  const auto cpu = obs::read_cpu();
  const auto process = obs::read_process();
  const MutexLock lock(mutex_);
  const double seconds = std::chrono::duration<double>(now - ticked_).count();
  if (seconds <= 0) return;
  ticked_ = now;
  interval_seconds_ = seconds;
  for (std::size_t i = 0; i < kOperations; ++i) {
    const Sample sample{counters_[i].count, counters_[i].bytes, counters_[i].nanoseconds, 0};
    interval_[i] = {sample.count - last_[i].count, sample.bytes - last_[i].bytes,
                    sample.nanoseconds - last_[i].nanoseconds, 0};
    last_[i] = sample;
  }
  const auto ticks = cpu.total - cpu_last_.total;
  if (cpu.total > cpu_last_.total)
    cpu_.machine_percent =
        100.0 * static_cast<double>(cpu.busy - cpu_last_.busy) / static_cast<double>(ticks);
  const auto used_ms =
      (process.user_ms + process.system_ms) - (process_last_.user_ms + process_last_.system_ms);
  cpu_.process_percent = static_cast<double>(used_ms) / (seconds * 10.0);
  cpu_last_ = cpu;
  process_last_ = process;
  tick_disks(seconds);
}

void NodeStats::tick_disks(double seconds) {
  const auto now = obs::read_disks();
  for (const std::string& disk : watched_) {
    const auto found = now.find(disk);
    if (found == now.end()) continue;
    const obs::DiskCounters& after = found->second;
    const obs::DiskCounters before = disks_last_[disk];
    const auto rate = [&](std::uint64_t more, std::uint64_t less) {
      return static_cast<std::uint64_t>(static_cast<double>(more - less) / seconds);
    };
    const auto average = [](std::uint64_t bytes, std::uint64_t count) {
      return count == 0 ? 0 : bytes / count;
    };
    disk_rates_[disk] = {
        rate(after.read_bytes, before.read_bytes),
        average(after.read_bytes - before.read_bytes, after.reads - before.reads),
        rate(after.written_bytes, before.written_bytes),
        average(after.written_bytes - before.written_bytes, after.writes - before.writes),
        std::min<std::uint64_t>(rate(after.busy_ms, before.busy_ms) / 10, 100)};
  }
  disks_last_ = now;
}

json NodeStats::tracker(std::chrono::nanoseconds uptime) const {
  const MutexLock lock(mutex_);
  json out = json::object();
  const auto put = [&](const std::string& name, std::uint64_t value) {
    if (value != 0) out[name] = value;
  };
  for (std::size_t i = 0; i < kOperations; ++i) {
    const std::string word(kWords[i]);
    const Sample& zero = zero_[i];
    put(word + ".n", counters_[i].count - zero.count);
    put("err." + word + ".n", counters_[i].errors - zero.errors);
    put(word + ".ns.total", counters_[i].nanoseconds - zero.nanoseconds);
    const auto& last = interval_[i];
    out[word + ".ns"] = last.count == 0 ? 0 : last.nanoseconds / last.count;
    if (!has_sizes(static_cast<Operation>(i))) continue;
    put(word + ".size", counters_[i].bytes - zero.bytes);
    out[word + ".bps"] =
        interval_seconds_ <= 0
            ? 0
            : static_cast<std::uint64_t>(static_cast<double>(last.bytes) / interval_seconds_);
  }
  for (const auto& [disk, rates] : disk_rates_) {
    const std::string prefix = "disk." + disk + ".";
    out[prefix + "read.bps"] = rates.read_bps;
    out[prefix + "avg.rsize"] = rates.read_average;
    out[prefix + "write.bps"] = rates.write_bps;
    out[prefix + "avg.wsize"] = rates.write_average;
    out[prefix + "util"] = rates.util_percent;
  }
  out["up.ns.time"] = uptime.count();
  return out;
}

json NodeStats::kinds() const {
  const MutexLock lock(mutex_);
  json out = json::object();
  for (std::size_t i = 0; i < kOperations; ++i) {
    const std::string word(kWords[i]);
    out[word + ".n"] = "counter";
    out["err." + word + ".n"] = "counter";
    out[word + ".ns.total"] = "total";
    out[word + ".ns"] = "latency";
    if (!has_sizes(static_cast<Operation>(i))) continue;
    out[word + ".size"] = "size";
    out[word + ".bps"] = "bw";
  }
  for (const std::string& disk : watched_) {
    const std::string prefix = "disk." + disk + ".";
    out[prefix + "read.bps"] = "compbw";
    out[prefix + "write.bps"] = "compbw";
    for (const char* name : {"avg.rsize", "avg.wsize", "util"}) out[prefix + name] = "gauge";
  }
  out["up.ns.time"] = "special";
  return out;
}

json NodeStats::disks() const {
  const MutexLock lock(mutex_);
  json out = json::object();
  for (const auto& [disk, rates] : disk_rates_)
    out[disk] = {{"RBps", rates.read_bps},
                 {"Ravg", rates.read_average},
                 {"WBps", rates.write_bps},
                 {"Wavg", rates.write_average},
                 {"Util", rates.util_percent}};
  return out;
}

NodeStats::Cpu NodeStats::cpu() const {
  const MutexLock lock(mutex_);
  return cpu_;
}

/// AIStore's public names of the same counters, so that its dashboards find them.
void NodeStats::export_to(obs::Metrics& metrics, const std::string& node) {
  const std::string prefix = role_ == Role::target ? "ais_target_" : "ais_proxy_";
  const obs::Labels labels{{"node_id", node}};
  for (std::size_t i = 0; i < kOperations; ++i) {
    const std::string word(kWords[i]);
    const Counters& its = counters_[i];
    const auto counter = [&](const std::string& name, const std::string& help,
                             const std::atomic<std::uint64_t>& value) {
      auto& exported = metrics.counter(prefix + name, help, labels);
      metrics.before_scrape([&exported, &value] {
        exported.Increment(static_cast<double>(value.load()) - exported.Value());
      });
    };
    counter(word + "_count", "Requests of this kind that were served.", its.count);
    counter("err_" + word + "_count", "Requests of this kind that failed.", its.errors);
    counter(word + "_ns_total", "Nanoseconds that requests of this kind took.", its.nanoseconds);
    if (has_sizes(static_cast<Operation>(i)))
      counter(word + "_bytes", "Payload bytes of requests of this kind.", its.bytes);
  }
}

}  // namespace tarn::cluster
