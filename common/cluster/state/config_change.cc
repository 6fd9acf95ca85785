#include "common/cluster/state/config_change.h"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"
#include "common/cluster/state/state_builder.h"
#include "common/cluster/store/attempts.h"
#include "common/cluster/store/keys.h"

namespace tarn::cluster {
namespace {

Result<ClusterConfig> config_of(const RangeResult& found) {
  if (found.items.empty()) return ClusterConfig();
  return parse_json<ClusterConfig>(found.items.front().value, Errc::corrupt,
                                   subject_of_key(keys::kConfig));
}

}  // namespace

/// An outcome that is not known needs no look: the same change again changes nothing.
Task<Result<ClusterConfig>> change_config(MetaStore& store, ClusterView& view, ConfigEdit change,
                                          Clock& clock) {
  for (Attempts attempts; co_await attempts.next();) {
    RangeRequest key{std::string(keys::kConfig), "", 0};
    CO_TRY(const auto found, co_await store.range(std::move(key)));
    CO_TRY(ClusterConfig config, config_of(found));
    CO_TRY(ConfigValues values, change(config.values));
    if (values == config.values) co_return config;
    config.values = std::move(values);
    ++config.version;
    config.changed_ns = clock.wall_time().count();
    Transaction next;
    const Revision before = found.items.empty() ? 0 : found.items.front().mod_revision;
    next.compare.push_back({std::string(keys::kConfig), Compare::What::mod_revision, before});
    next.puts.push_back({std::string(keys::kConfig), nlohmann::json(config).dump(), 0});
    next.puts.push_back({std::string(keys::kConfigVersion), std::to_string(config.version), 0});
    CO_TRY(const auto done, co_await store.commit(std::move(next)));
    if (!done.succeeded) continue;
    CO_TRY_OK(co_await view.fresh());
    co_return config;
  }
  co_return fail(Errc::unavailable, "the configuration is being changed by others all the time");
}

}  // namespace tarn::cluster
