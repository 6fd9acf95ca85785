#include "proxy/job_kinds.h"

#include <string_view>
#include <utility>

#include "proxy/bucket_copy.h"
#include "proxy/object_job.h"
#include "proxy/rebalance_job.h"
#include "proxy/resilver_job.h"
#include "proxy/summary.h"

namespace tarn::proxy {
namespace {

struct Kind {
  std::string_view name;
  Task<Status> (*drive)(const Services&, Job);
};
constexpr Kind kKinds[] = {
    {"copy-bck", drive_bucket_copy},        {"copy-listrange", drive_object_job},
    {"delete-listrange", drive_object_job}, {"make-n-copies", drive_make_copies},
    {"move-bck", drive_bucket_rename},      {"rebalance", drive_rebalance},
    {"resilver", drive_resilver},           {"summary-bck", drive_summary},
};

/// AIStore's names for people, and its kinds (aistore-api.md, section 3.3).
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

}  // namespace

Task<Status> drive_job(const Services& services, Job job) {
  for (const Kind& kind : kKinds)
    if (job.kind == kind.name) co_return co_await kind.drive(services, std::move(job));
  co_return fail(Errc::unsupported, "this proxy does not know jobs of kind '{}'", job.kind);
}

std::string kind_of(const std::string& name) {
  for (const auto& [shown, kind] : kShownAs)
    if (name == shown) return std::string(kind);
  return name;
}

}  // namespace tarn::proxy
