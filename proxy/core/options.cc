#include "proxy/core/options.h"

#include <utility>

#include "common/api/bucket.h"

namespace tarn::proxy {

void Options::bind(Settings& settings) {
  settings.custom(
      "redirect_put_status", "307", "307 or 302",
      [this](std::string_view value) -> Status {
        if (value != "307" && value != "302")
          return fail(Errc::invalid_argument, "'{}' is not 307 or 302", value);
        redirect_put_status = value == "307" ? 307 : 302;
        return {};
      },
      "status of the answer to a PUT on the redirecting listener; with 302 some clients send a "
      "GET instead, and the upload is lost");
  settings.custom(
      "default_bucket", default_bucket, "bucket name",
      [this](std::string_view value) -> Status {
        TRY_OK(api::check_bucket_name(value));
        default_bucket = value;
        return {};
      },
      "bucket that is made with the cluster and holds objects whose path has one segment only");
  settings.duration("lease.term", lease.term, std::chrono::seconds(1), std::chrono::seconds(60),
                    "term of a node's lease: after it a silent node counts as down; nodes renew"
                    " it four times a term");
  settings.duration(
      "suspect.after", suspect_after, 2 * cluster::kHeartbeatEvery, std::chrono::seconds(60),
      "how long no heartbeat of a target may arrive (it sends one each second) before "
      "readers are sent elsewhere; one that was killed is known at once");
  settings.duration(
      "target.out_after", out_after, std::chrono::seconds(1), std::chrono::hours(24 * 365),
      "how long a target may be down before what it holds is to be made again elsewhere");
  settings.duration("proxy.out_after", proxy_out_after, std::chrono::seconds(1),
                    std::chrono::hours(24 * 365),
                    "how long a proxy may be down before it is taken out of the cluster; it joins "
                    "again when it is back");
  settings.duration("target.tombstone_keep", tombstone_keep, std::chrono::seconds(1),
                    std::chrono::hours(24 * 365),
                    "how long a target may be down before it is taken out of the cluster, and "
                    "can join again only with empty drives");
  settings.duration("job.patience", job_patience, std::chrono::seconds(1),
                    std::chrono::hours(24 * 7),
                    "how long a job waits for a target that is away, or gets no further, before it "
                    "ends with an error");
  service.bind(settings);
}

Status Options::choose_meta(const std::string& meta) {
  const bool embedded = meta == "embedded";
  if (!embedded) {
    auto endpoints = cluster::parse_endpoints(meta);
    if (!endpoints)
      return fail(Errc::invalid_argument,
                  "--meta {}: want embedded, or the URLs of etcd, http://a:2379,http://b:2379: {}",
                  meta, endpoints.error().message);
    etcd.endpoints = std::move(*endpoints);
    if (secret_file.empty())
      return fail(Errc::invalid_argument,
                  "--meta {} needs --secret-file: every node of the cluster has a copy of the same "
                  "file (openssl rand -hex 32 > FILE && chmod 600 FILE)",
                  meta);
  }
  const cluster::EtcdOptions none;
  if (embedded &&
      !(etcd.tls.ca == none.tls.ca && etcd.tls.certificate == none.tls.certificate &&
        etcd.tls.key == none.tls.key && etcd.user.empty() && etcd.password_file.empty()))
    return fail(Errc::invalid_argument,
                "the flags that begin with --meta- are for etcd: give its URLs with --meta");
  return {};
}

}  // namespace tarn::proxy
