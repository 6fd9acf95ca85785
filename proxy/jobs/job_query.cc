#include "proxy/jobs/job_query.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

/// AIStore's names for people, and its kinds (docs/api.md).
constexpr std::pair<std::string_view, std::string_view> kShownAs[] = {
    {"lru-eviction", "lru"},
    {"cleanup", "cleanup-store"},
    {"warm-up-metadata", "load-lom-cache"},
    {"mirror", "make-n-copies"},
    {"ec-bucket", "ec-encode"},
    {"prefetch-objects", "prefetch-listrange"},
    {"copy-bucket", "copy-bck"},
    {"etl-bucket", "etl-bck"},
    {"rename-bucket", "move-bck"},
    {"copy-objects", "copy-listrange"},
    {"etl-objects", "etl-listrange"},
    {"delete-objects", "delete-listrange"},
    {"evict-objects", "evict-listrange"},
    {"evict-remote-bucket", "evict-remote-bck"},
    {"summary", "summary-bck"},
    {"shard-summary", "summary-shard"},
    {"shard-index", "index-shard"},
    {"promote-files", "promote"},
    {"elect-primary", "election"},
};

bool is_about(const Job& job, const std::vector<api::Bucket>& buckets) {
  return std::any_of(buckets.begin(), buckets.end(),
                     [&](const api::Bucket& each) { return job.bucket == each || job.to == each; });
}

/// Takes "bck" or "buckets". AIStore's clients send an empty name or null for none.
Status take_buckets(const std::string& key, const json& value, JobQuery& out) {
  if (value.is_array()) {
    for (const json& each : value) TRY_OK(take_buckets(key, each, out));
    return {};
  }
  if (value.is_null()) return {};
  try {
    auto bucket = value.get<api::Bucket>();
    TRY(bucket.provider, api::canonical_provider(bucket.provider));
    if (!bucket.name.empty()) out.buckets.push_back(std::move(bucket));
    return {};
  } catch (const json::exception&) {
    return fail(Errc::invalid_argument, "\"{}\" of the body names no bucket", key);
  }
}

}  // namespace

std::string kind_of(const std::string& name) {
  for (const auto& [shown, kind] : kShownAs)
    if (name == shown) return std::string(kind);
  return name;
}

bool matches(const Job& job, const JobQuery& query) {
  if (!query.id.empty() && job.id != query.id) return false;
  if (!query.kind.empty() && job.kind != query.kind) return false;
  if (!query.node.empty() && !job.parts.contains(query.node)) return false;
  if (!query.buckets.empty() && !is_about(job, query.buckets)) return false;
  return !query.only_running || job.is_running();
}

std::string name_of(const JobQuery& query) {
  return "x-" + query.kind + (query.id.empty() ? "" : "[" + query.id + "]") +
         (query.only_running ? "-only-running" : "");
}

Result<JobQuery> parse_job_query(const std::string& body) {
  if (trim(body).empty()) return JobQuery();
  return job_query_from(json::parse(body, nullptr, false));
}

Result<JobQuery> job_query_from(const json& message) {
  JobQuery out;
  if (message.is_null()) return out;
  if (!message.is_object())
    return fail(Errc::invalid_argument,
                "the body is no JSON object such as {{\"kind\":\"summary\"}}");
  for (const auto& [name, value] : message.items()) {
    const std::string key = to_lower(name);
    if (value.is_null()) continue;
    if (key == "show_active" || key == "force") {
      if (!value.is_boolean())
        return fail(Errc::invalid_argument, "\"{}\" of the body is neither true nor false", name);
      (key == "force" ? out.force : out.only_running) = value.get<bool>();
      continue;
    }
    if (key == "bck" || key == "buckets") {
      TRY_OK(take_buckets(name, value, out));
      continue;
    }
    std::string* text = key == "id"                          ? &out.id
                        : key == "kind"                      ? &out.kind
                        : key == "node" || key == "daemonid" ? &out.node
                                                             : nullptr;
    if (text == nullptr) continue;
    if (!value.is_string())
      return fail(Errc::invalid_argument, "\"{}\" of the body is no string", name);
    *text = value.get<std::string>();
  }
  out.kind = kind_of(out.kind);
  return out;
}

}  // namespace tarn::proxy
