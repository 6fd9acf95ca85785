#include "proxy/admin/job_kinds.h"

#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "proxy/bucket/bucket_copy.h"
#include "proxy/jobs/download_job.h"
#include "proxy/jobs/inventory_job.h"
#include "proxy/jobs/object_job.h"
#include "proxy/jobs/rebalance_job.h"
#include "proxy/jobs/rebuild_job.h"
#include "proxy/jobs/recode_job.h"
#include "proxy/jobs/resilver_job.h"
#include "proxy/jobs/scrub_job.h"
#include "proxy/jobs/store_jobs.h"
#include "proxy/jobs/summary.h"

namespace tarn::proxy {
namespace {

struct Kind {
  std::string_view name;
  Task<Status> (*drive)(const Services&, Job);
};
constexpr Kind kKinds[] = {
    {"blob-download", drive_object_job},
    {"cleanup-store", drive_clean_up},
    {"copy-bck", drive_bucket_copy},
    {"copy-listrange", drive_object_job},
    {"create-inventory", drive_inventory},
    {"delete-listrange", drive_object_job},
    {"download", drive_download},
    {"ec-encode", drive_recode},
    {"evict-listrange", drive_object_job},
    {"load-lom-cache", drive_load_index},
    {"lru", drive_eviction},
    {"make-n-copies", drive_make_copies},
    {"move-bck", drive_bucket_rename},
    {"prefetch-listrange", drive_object_job},
    {"rebalance", drive_rebalance},
    {"rebuild", drive_rebuild},
    {"resilver", drive_resilver},
    {"scrub", drive_scrub},
    {"summary-bck", drive_summary},
};

/// Kinds that begin by a call of their own.
constexpr std::pair<std::string_view, std::string_view> kBegunBy[] = {
    {"blob-download", "POST /v1/objects/B {\"action\":\"blob-download\"}"},
    {"copy-bck", "POST /v1/buckets/B?bck_to= {\"action\":\"copy-bck\"}"},
    {"copy-listrange", "POST /v1/buckets/B {\"action\":\"copy-listrange\"}"},
    {"create-inventory", "POST /v1/buckets/B {\"action\":\"create-inventory\"}"},
    {"delete-listrange", "DELETE /v1/buckets/B {\"action\":\"delete-listrange\"}"},
    {"download", "POST /v1/download"},
    {"evict-listrange", "DELETE /v1/buckets/B {\"action\":\"evict-listrange\"}"},
    {"prefetch-listrange", "POST /v1/buckets/B {\"action\":\"prefetch-listrange\"}"},
    {"move-bck", "POST /v1/buckets/B?bck_to= {\"action\":\"move-bck\"}"},
    {"summary-bck", "GET /v1/buckets/B {\"action\":\"summary-bck\"}"},
};

/// AIStore's kinds that there are no jobs of here yet.
constexpr std::string_view kLater[] = {
    "archive", "dsort",      "ec-get",        "ec-put",           "ec-resp",   "election",
    "etl-bck", "etl-inline", "etl-listrange", "evict-remote-bck", "get-batch", "index-shard",
    "list",    "promote",    "put-copies",    "summary-shard",
};

}  // namespace

Task<Status> drive_job(const Services& services, Job job) {
  for (const Kind& kind : kKinds)
    if (job.kind == kind.name) co_return co_await kind.drive(services, std::move(job));
  co_return fail(Errc::unsupported, "this proxy does not know jobs of kind '{}'", job.kind);
}

Error cannot_start(const std::string& kind) {
  for (const auto& [name, call] : kBegunBy)
    if (kind == name)
      return {Errc::invalid_argument, fmt::format("a job of kind '{}' begins by {}", kind, call)};
  if (kind == "rechunk")
    return {Errc::unsupported,
            "objects are whole files here and have no chunks: there is nothing to rechunk"};
  for (const std::string_view later : kLater)
    if (kind == later)
      return {Errc::unsupported,
              fmt::format("starting a job of kind '{}' belongs to later work", kind)};
  return {
      Errc::invalid_argument,
      fmt::format(
          "'{}' is no kind of job: known are rebalance, resilver, rebuild, scrub, make-n-copies, "
          "ec-encode, cleanup-store, load-lom-cache and lru",
          kind)};
}

}  // namespace tarn::proxy
