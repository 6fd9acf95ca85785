#include "cli/drives/local_drives.h"

#include <nlohmann/json.hpp>

#include "cli/drives/drive_scan.h"
#include "common/base/read_json.h"

namespace tarn::cli {
namespace {

/// True if `path` is, on this machine, a drive of this target.
Result<bool> is_here(const std::string& target, const std::string& path) {
  if (!path.starts_with('/')) return false;
  const auto label = read_drive_label(path);
  if (label) return label->node == target;
  if (label.error().code == Errc::forbidden)
    return fail(Errc::forbidden, "{}: measure as a user who may read it, or with --no-drives",
                label.error().message);
  return false;
}

}  // namespace

Task<Result<ClusterDrives>> cluster_drives(Session& session) {
  CO_TRY(const auto answer,
         co_await session.call(http::Method::get, "/v1/cluster?what=mountpaths"));
  constexpr const char* kSubject = "the cluster's list of drives is malformed";
  co_return read_json(Errc::io, kSubject, [&]() -> Result<ClusterDrives> {
    const auto targets = nlohmann::json::parse(answer.body);
    ClusterDrives out;
    for (const auto& [target, drives] : targets.items())
      for (const auto& path : drives.at("available")) {
        TRY(const bool here, is_here(target, path.get<std::string>()));
        if (here)
          out.here.push_back(path);
        else
          ++out.elsewhere;
      }
    return out;
  });
}

}  // namespace tarn::cli
