#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/cluster/node_report.h"
#include "target/object_store.h"
#include "target/options.h"

namespace tarn::target {

/// The drives as they are now, those that are missing last. Waits for no drive.
[[nodiscard]] std::vector<cluster::DriveReport> drive_reports(const ObjectStore& store,
                                                              const Options& options);

/// Adds the sections of what=config that this target's settings decide.
void add_config(const Options& options, nlohmann::json& config);

}  // namespace tarn::target
