#include "common/api/download_batch.h"

#include <nlohmann/json.hpp>

namespace tarn::api {

using nlohmann::json;

void to_json(json& out, const DownloadBatch& batch) {
  json items = json::array();
  for (const DownloadItem& each : batch.items) items.push_back({each.name, each.link});
  out = {{"job", batch.job},
         {"bucket", batch.bucket},
         {"bmd_version", batch.bmd_version},
         {"map_version", batch.map_version},
         {"terms", batch.terms},
         {"bytes_per_second", batch.bytes_per_second},
         {"items", std::move(items)}};
}

void from_json(const json& in, DownloadBatch& batch) {
  in.at("job").get_to(batch.job);
  in.at("bucket").get_to(batch.bucket);
  in.at("bmd_version").get_to(batch.bmd_version);
  in.at("map_version").get_to(batch.map_version);
  in.at("terms").get_to(batch.terms);
  in.at("bytes_per_second").get_to(batch.bytes_per_second);
  for (const json& each : in.at("items"))
    batch.items.push_back({each.at(0).get<std::string>(), each.at(1).get<std::string>()});
}

void to_json(json& out, const DownloadProgress& progress) {
  json current = json::array();
  for (const auto& each : progress.current)
    current.push_back({each.item, each.bytes, each.total, each.started_ns});
  json finished = json::array();
  for (const auto& each : progress.finished)
    finished.push_back({each.item, each.bytes, each.started_ns, each.ended_ns});
  out = {{"done", progress.done},
         {"error", progress.error},
         {"current", std::move(current)},
         {"finished", std::move(finished)},
         {"skipped", progress.skipped},
         {"failed", progress.failed},
         {"later", progress.later},
         {"why_later", progress.why_later},
         {"map_version", progress.map_version}};
}

void from_json(const json& in, DownloadProgress& progress) {
  in.at("done").get_to(progress.done);
  in.at("error").get_to(progress.error);
  for (const json& each : in.at("current"))
    progress.current.push_back({each.at(0).get<std::uint32_t>(), each.at(1).get<std::uint64_t>(),
                                each.at(2).get<std::uint64_t>(), each.at(3).get<std::int64_t>()});
  for (const json& each : in.at("finished"))
    progress.finished.push_back({each.at(0).get<std::uint32_t>(), each.at(1).get<std::uint64_t>(),
                                 each.at(2).get<std::int64_t>(), each.at(3).get<std::int64_t>()});
  in.at("skipped").get_to(progress.skipped);
  in.at("failed").get_to(progress.failed);
  in.at("later").get_to(progress.later);
  in.at("why_later").get_to(progress.why_later);
  in.at("map_version").get_to(progress.map_version);
}

}  // namespace tarn::api
