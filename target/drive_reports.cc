#include "target/drive_reports.h"

#include <nlohmann/json.hpp>

namespace tarn::target {

std::vector<cluster::DriveReport> drive_reports(const ObjectStore& store, const Options& options) {
  std::vector<cluster::DriveReport> out;
  for (const auto& drive : store.drives()) {
    const io::Space space = drive->space();
    cluster::DriveReport report;
    report.path = drive->path();
    report.mount = drive->mount();
    report.used = space.total - space.free;
    report.available = space.free;
    report.usable = drive->usable().has_value();
    const auto is_above = [&](std::uint64_t percent) {
      return report.used * 100 > space.total * percent;
    };
    report.low = is_above(options.high_watermark);
    report.full = is_above(options.out_of_space);
    out.push_back(std::move(report));
  }
  for (const auto& [path, why] : store.missing()) {
    cluster::DriveReport report;
    report.path = path;
    report.usable = false;
    out.push_back(std::move(report));
  }
  return out;
}

void add_config(const Options& options, nlohmann::json& config) {
  config["space"] = {{"highwm", options.high_watermark}, {"out_of_space", options.out_of_space}};
}

}  // namespace tarn::target
