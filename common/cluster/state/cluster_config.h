#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket_props.h"
#include "common/base/error.h"

namespace tarn::api {
struct Action;
class Query;
}  // namespace tarn::api

namespace tarn::cluster {

/// Settings by name, with their values as JSON: "log.level" to "\"debug\"".
using ConfigValues = std::map<std::string, std::string>;

/// Settings that operators have made for all nodes of a cluster, while it runs. Kept in the meta
/// store.
struct ClusterConfig {
  std::uint64_t version = 0;    ///< counts changes; 0: no value was ever set
  std::int64_t changed_ns = 0;  ///< time of the last change, Unix time
  ConfigValues values;          ///< of settings that were set; names of later versions stay

  bool operator==(const ClusterConfig&) const = default;
};
void to_json(nlohmann::json& out, const ClusterConfig& config);
void from_json(const nlohmann::json& in, ClusterConfig& config);

// Settings are one table in cluster_config.cc, and the properties that new buckets begin with: the
// sections of bucket properties that AIStore has in its configuration, too
// (common/api/bucket_props.h). Names are AIStore's where it has them, else those of --set; names of
// --set are always understood, and case does not count.

/// Change that a message asks for: AIStore's {"action":"set-config","value":{"log":{"level":"4"}}},
/// or "log.level=4" in the query. Keys of `action` and null leaves are left out, "transient" and
/// "action" are no settings. invalid_argument for a message that is none, and if it sets no value.
struct ConfigChange {
  ConfigValues values;     ///< as the message has them
  bool transient = false;  ///< in force until the nodes end
};
[[nodiscard]] Result<ConfigChange> parse_config_change(const api::Query& query,
                                                       const api::Action& action);

/// `wanted` as it will be kept: each value checked alone. Errors as with_config().
[[nodiscard]] Result<ConfigValues> checked_config(const ConfigValues& wanted);
/// `before` with `wanted`, checked; all of it or nothing. Errors name the setting, its value and
/// the allowed values: invalid_argument for wrong values, unsupported for those of later work and
/// for settings of AIStore that Tarn does not have.
[[nodiscard]] Result<ConfigValues> with_config(ConfigValues before, const ConfigValues& wanted);
/// `before` without the settings of these names: they have their default again. invalid_argument
/// for a name that is no setting.
[[nodiscard]] Result<ConfigValues> without_config(ConfigValues before,
                                                  const std::vector<std::string>& names);
/// invalid_argument when `values` has a setting that only all nodes together can have: properties
/// of new buckets.
Status check_for_one_node(const ConfigValues& values);

/// The properties that a new bucket has by default.
[[nodiscard]] Result<api::BucketProps> bucket_defaults(const ClusterConfig& config);

/// Reads values by name, as the meta store and nodes keep them. Former names of settings, which
/// versions before have stored, become the present ones, and yield to these.
[[nodiscard]] ConfigValues stored_values(const nlohmann::json& in);

/// A value as it is written after `KEY=`: "debug", "90".
[[nodiscard]] std::string config_text(const std::string& value);

/// Puts the sections with these values into AIStore's ClusterConfig: all that can be set.
void put_config(const ConfigValues& values, nlohmann::json& tree);
/// "4" for "debug": AIStore's number for a level of ours.
[[nodiscard]] std::string aistore_log_level(const std::string& word);

}  // namespace tarn::cluster
