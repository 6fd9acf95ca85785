#include "common/cluster/state/cluster_config.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/api/action.h"
#include "common/api/request_path.h"
#include "common/base/encoding.h"
#include "common/base/settings.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

enum class Kind : std::uint8_t {
  level,     // of the log, a word or AIStore's number
  duration,  // from `least` to `most` milliseconds
  size,      // from `least` to `most` bytes
  integer,   // from `least` to `most`
  reserve,   // a size, or up to 50%
  word,      // one of `words`
  flag,      // true or false, a word here and a truth value in AIStore's configuration
};

/// A setting that nodes act upon: the one place that knows its name, its default and its allowed
/// values.
struct Row {
  std::string_view name;
  std::string_view other;  ///< another name: that of --set, or one that it had before
  std::string_view initial;
  Kind kind;
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  std::array<std::string_view, 2> words{};
};

constexpr std::uint64_t ms(std::chrono::milliseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

constexpr std::array kRows{
    Row{"log.level", "", "info", Kind::level},
    Row{"space.lowwm", "space.low_watermark", "75", Kind::integer, 1, 100},
    Row{"space.highwm", "space.high_watermark", "90", Kind::integer, 1, 100},
    Row{"space.out_of_space", "", "95", Kind::integer, 1, 100},
    Row{"space.reserve", "", "1%", Kind::reserve},
    Row{"checksum.verify", "", "cold", Kind::word, 0, 0, {"cold", "always"}},
    Row{"http.idle_timeout", "", "75s", Kind::duration, ms(1s), ms(24h)},
    Row{"http.header_timeout", "", "10s", Kind::duration, ms(100ms), ms(1h)},
    Row{"http.body_rate_min", "", "1KiB", Kind::size, 1, 1ULL << 30U},
    Row{"http.body_rate_window", "", "30s", Kind::duration, ms(1s), ms(1h)},
    Row{"shutdown.grace", "", "30s", Kind::duration, 0, ms(1h)},
    Row{"append.timeout", "", "1h", Kind::duration, ms(1s), ms(24h * 7)},
    Row{"rebalance.enabled", "", "true", Kind::flag, 0, 0, {"true", "false"}},
    Row{"resilver.enabled", "", "true", Kind::flag, 0, 0, {"true", "false"}},
    Row{"rebalance.bandwidth", "", "0B", Kind::size, 0, 1ULL << 40U},
    Row{"rebalance.workers", "", "0", Kind::integer, 0, 64},
    Row{"rebuild.bandwidth_min", "rebuild.floor", "8MiB", Kind::size, 0, 1ULL << 40U},
    Row{"rebuild.bandwidth_max", "", "0B", Kind::size, 0, 1ULL << 40U},
    Row{"redundancy.interval", "", "1m", Kind::duration, ms(1s), ms(24h * 365)},
    Row{"scrub.period", "", "168h", Kind::duration, 0, ms(24h * 365)},
    Row{"scrub.bandwidth", "", "0B", Kind::size, 0, 1ULL << 40U},
    Row{"redirect_put_status", "", "307", Kind::word, 0, 0, {"307", "302"}},
};

/// Settings that a program reads once, at its start.
constexpr std::array<std::string_view, 16> kOfTheStart{
    "default_bucket",  "drive.hang_after",     "drive.kind",         "drive.out_after",
    "drive.threads",   "job.patience",         "lease.term",         "proxy.out_after",
    "shutdown.notice", "suspect.after",        "target.out_after",   "target.tombstone_keep",
    "target.weight",   "upstream.connections", "upstream.endpoints", "upstream.timeout"};
/// Sections of AIStore's configuration that are the properties of new buckets.
constexpr std::array<std::string_view, 8> kBucketSections{
    "versioning", "checksum", "mirror", "ec", "chunks", "lru", "write_policy", "rate_limit"};
constexpr std::string_view kDurability = "durability";
/// All other sections of AIStore's.
constexpr std::array<std::string_view, 28> kOfAistore{
    "auth",       "backend",   "proxy",   "net",      "timeout",
    "client",     "memsys",    "space",   "log",      "periodic",
    "rebalance",  "resilver",  "disk",    "fshc",     "keepalivetracker",
    "transport",  "tcb",       "tco",     "arch",     "lso",
    "downloader", "get_batch", "tracing", "features", "distributed_sort",
    "fspaths",    "host_net",  "ext"};

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json parse(const std::string& value) { return json::parse(value, nullptr, false); }

const Row* find_row(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name || (!row.other.empty() && row.other == name)) return &row;
  return nullptr;
}

template <class Words>
bool contains(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The part of `tree` at a dotted path; null when there is none.
const json* find_path(const json& tree, std::string_view path) {
  const json* node = &tree;
  while (node->is_object()) {
    const auto dot = path.find('.');
    const auto found = node->find(std::string(path.substr(0, dot)));
    if (found == node->end()) return nullptr;
    if (dot == std::string_view::npos) return &*found;
    node = &*found;
    path.remove_prefix(dot + 1);
  }
  return nullptr;
}

void set_path(json& tree, std::string_view path, json value) {
  json* node = &tree;
  for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    node = &(*node)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  (*node)[std::string(path)] = std::move(value);
}

bool is_of_buckets(std::string_view name) {
  return name == kDurability ||
         (find_row(name) == nullptr && contains(kBucketSections, name.substr(0, name.find('.'))));
}

tl::unexpected<Error> cluster_config_wrong(std::string_view name, std::string_view given,
                                           std::string_view why) {
  return fail(Errc::invalid_argument, "setting '{}' cannot be '{}': {}", name, given, why);
}

Result<std::string> checked_text(const Row& row, const std::string& given) {
  switch (row.kind) {
    case Kind::level: {
      auto word = obs::parse_log_level(given);
      if (!word) return cluster_config_wrong(row.name, given, word.error().message);
      return word;
    }
    case Kind::duration: {
      const auto time = parse_duration(given);
      if (!time || ms(*time) < row.least || ms(*time) > row.most)
        return cluster_config_wrong(
            row.name, given,
            fmt::format("a duration from {} to {} is allowed, such as 75s or 1m30s",
                        duration_text(std::chrono::milliseconds(row.least)),
                        duration_text(std::chrono::milliseconds(row.most))));
      return duration_text(*time);
    }
    case Kind::size: {
      const auto bytes = parse_size(given);
      if (!bytes || *bytes < row.least || *bytes > row.most)
        return cluster_config_wrong(row.name, given,
                                    fmt::format("a size from {} to {} is allowed",
                                                size_text(row.least), size_text(row.most)));
      return size_text(*bytes);
    }
    case Kind::integer: {
      const auto number = parse_u64(given);
      if (!number || *number < row.least || *number > row.most)
        return cluster_config_wrong(
            row.name, given,
            fmt::format("a whole number from {} to {} is allowed", row.least, row.most));
      return std::to_string(*number);
    }
    case Kind::reserve: {
      const bool is_percent = given.ends_with('%');
      const auto percent = is_percent ? parse_u64(given.substr(0, given.size() - 1)) : std::nullopt;
      if (is_percent ? !percent || *percent > 50 : !parse_size(given))
        return cluster_config_wrong(row.name, given,
                                    "a size, or a percentage from 0% to 50%, is allowed");
      return given;
    }
    default:
      if (!contains(row.words, given))
        return cluster_config_wrong(row.name, given,
                                    fmt::format("{} or {} is allowed", row.words[0], row.words[1]));
      return given;
  }
}

/// `value` in the type that the bucket property has: AIStore's clients send all values of a query
/// as text.
json typed(const json& value, const json& initial) {
  if (!value.is_string() || initial.is_string()) return value;
  const std::string text = value.get<std::string>();
  if (!initial.is_boolean()) {
    json parsed = json::parse(text, nullptr, false);
    return parsed.is_number() ? parsed : value;
  }
  api::Query query;
  query.set("v", text);
  const auto flag = query.flag("v");
  return flag && !text.empty() ? json(*flag) : value;
}

/// Reason why there is no setting of this name.
Error no_such(const std::string& name) {
  if (contains(kOfTheStart, name))
    return {Errc::invalid_argument,
            fmt::format("setting '{0}' is read at the start of a program: give it --set {0}=VALUE "
                        "and start it again",
                        name)};
  const auto section = std::string_view(name).substr(0, name.find('.'));
  if (contains(kOfAistore, section) || contains(kBucketSections, section))
    return {Errc::unsupported,
            fmt::format("setting '{}' of AIStore's cannot be changed in this version of Tarn "
                        "(docs/configuration.md has those that can)",
                        name)};
  std::string known;
  for (const Row& row : kRows)
    known += std::string(known.empty() ? "" : ", ") + std::string(row.name);
  return {Errc::invalid_argument,
          fmt::format("there is no setting '{}'; there are {}, and the properties of new buckets",
                      name, known)};
}

/// True if a value that is no choice equals its only value: then setting it changes nothing.
bool is_as_it_is(const std::string& name, const json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : dump(value);
  return (name == "features" && text == "0") ||
         (name == "periodic.stats_time" && (text == "10s" || text == "0s"));
}

/// All values of `values` that are properties of buckets, as a tree.
json bucket_tree(const ConfigValues& values) {
  json tree = json::object();
  for (const auto& [name, value] : values)
    if (is_of_buckets(name)) set_path(tree, name, parse(value));
  return tree;
}

/// Takes one value; of buckets' properties the check comes when all are there.
Status cluster_config_take(const std::string& given_name, const std::string& given,
                           ConfigValues& out) {
  const std::string name = to_lower(given_name);
  const json value = parse(given);
  if (const Row* row = find_row(name)) {
    const std::string text = value.is_string() ? value.get<std::string>() : dump(value);
    TRY(const std::string kept, checked_text(*row, text));
    out[std::string(row->name)] = dump(json(kept));  // the default, too: --set may differ
    return {};
  }
  if (is_of_buckets(name)) {
    static const json initial = api::props_tree({});
    const json* leaf = find_path(initial, name);
    if (leaf == nullptr || leaf->is_object()) return fail(no_such(name));
    const json kept = typed(value, *leaf);
    if (kept == *leaf) {
      out.erase(name);
    } else {
      out[name] = dump(kept);
    }
    return {};
  }
  return is_as_it_is(name, value) ? Status() : fail(no_such(name));
}

std::uint64_t number_of(const ConfigValues& values, std::string_view name) {
  const auto found = values.find(std::string(name));
  const std::string text =
      found == values.end() ? std::string(find_row(name)->initial) : config_text(found->second);
  return parse_u64(text).value_or(0);
}

Status check_together(const ConfigValues& values) {
  if (number_of(values, "space.highwm") > number_of(values, "space.out_of_space"))
    return fail(Errc::invalid_argument,
                "setting 'space.highwm' ({}) cannot be above 'space.out_of_space' ({})",
                number_of(values, "space.highwm"), number_of(values, "space.out_of_space"));
  // The default may be higher: then the high watermark counts for both.
  const std::uint64_t low = number_of(values, "space.lowwm");
  if (low != number_of({}, "space.lowwm") && low > number_of(values, "space.highwm"))
    return fail(Errc::invalid_argument,
                "setting 'space.lowwm' ({}) cannot be above 'space.highwm' ({})", low,
                number_of(values, "space.highwm"));
  const auto props = api::with_changes({}, bucket_tree(values));
  if (!props) return fail(props.error());
  return {};
}

void flatten(const std::string& path, const json& value, ConfigValues& out) {
  if (value.is_null()) return;
  if (!value.is_object()) {
    out[path] = dump(value);
    return;
  }
  for (const auto& [key, below] : value.items())
    flatten(path.empty() ? key : fmt::format("{}.{}", path, key), below, out);
}

}  // namespace

void to_json(json& out, const ClusterConfig& config) {
  json values = json::object();
  for (const auto& [name, value] : config.values) values[name] = parse(value);
  out = {{"version", config.version},
         {"changed_ns", config.changed_ns},
         {"values", std::move(values)}};
}

void from_json(const json& in, ClusterConfig& config) {
  config = ClusterConfig{};
  in.at("version").get_to(config.version);
  config.changed_ns = in.value("changed_ns", std::int64_t{0});
  config.values = stored_values(in.at("values"));
}

ConfigValues stored_values(const json& in) {
  ConfigValues out;
  for (const auto& [name, value] : in.items()) {
    const Row* row = find_row(name);
    if (row == nullptr || row->name == name)
      out[name] = dump(value);
    else
      out.try_emplace(std::string(row->name), dump(value));
  }
  return out;
}

Result<ConfigChange> parse_config_change(const api::Query& query, const api::Action& action) {
  ConfigChange out;
  TRY(out.transient, query.flag("transient"));
  for (const auto& [key, value] : query.items())
    if (key != "transient" && key != "action") out.values[key] = dump(json(value));
  if (!action.value.is_null() && !action.value.is_object())
    return fail(Errc::invalid_argument,
                "set-config: \"value\" is no JSON object such as {{\"log\":{{\"level\":\"4\"}}}}");
  flatten("", action.value, out.values);
  if (out.values.empty())
    return fail(Errc::invalid_argument,
                "set-config: nothing to set; log.level=debug can be (docs/configuration.md)");
  return out;
}

Result<ConfigValues> checked_config(const ConfigValues& wanted) {
  ConfigValues out;
  for (const auto& [name, value] : wanted) TRY_OK(cluster_config_take(name, value, out));
  return out;
}

Result<ConfigValues> with_config(ConfigValues before, const ConfigValues& wanted) {
  for (const auto& [name, value] : wanted) TRY_OK(cluster_config_take(name, value, before));
  TRY_OK(check_together(before));
  return before;
}

Result<ConfigValues> without_config(ConfigValues before, const std::vector<std::string>& names) {
  for (const std::string& given : names) {
    const std::string name = to_lower(given);
    const Row* row = find_row(name);
    static const json initial = api::props_tree({});
    // Settings that a later version has made can be removed as well.
    if (row == nullptr && find_path(initial, name) == nullptr && !before.contains(name))
      return fail(no_such(name));
    before.erase(row == nullptr ? name : std::string(row->name));
  }
  TRY_OK(check_together(before));
  return before;
}

Status check_for_one_node(const ConfigValues& values) {
  for (const auto& [name, value] : values)
    if (is_of_buckets(to_lower(name)))
      return fail(
          Errc::invalid_argument,
          "setting '{}' is what new buckets begin with: it can be set for the whole cluster "
          "only",
          name);
  return {};
}

Result<api::BucketProps> bucket_defaults(const ClusterConfig& config) {
  return api::with_changes({}, bucket_tree(config.values));
}

std::string config_text(const std::string& value) {
  const json parsed = parse(value);
  return parsed.is_string() ? parsed.get<std::string>() : value;
}

void put_config(const ConfigValues& values, json& tree) {
  const json props = api::props_tree({});
  for (const std::string_view section : kBucketSections)
    tree[std::string(section)] = props.at(std::string(section));
  tree[std::string(kDurability)] = props.at(std::string(kDurability));
  for (const Row& row : kRows) {
    const auto set = values.find(std::string(row.name));
    const std::string text =
        set == values.end() ? std::string(row.initial) : config_text(set->second);
    json value = row.kind == Kind::level ? aistore_log_level(text) : text;
    if (row.kind == Kind::integer) value = parse_u64(text).value_or(0);
    if (row.kind == Kind::flag) value = text == "true";
    set_path(tree, row.name, std::move(value));
  }
  for (const auto& [name, value] : values)
    if (is_of_buckets(name)) set_path(tree, name, parse(value));
}

std::string aistore_log_level(const std::string& word) {
  if (word == "trace") return "5";
  if (word == "debug") return "4";
  if (word == "info") return "3";
  return word == "warn" ? "2" : "1";
}

}  // namespace tarn::cluster
