#include "target/upstream/requests.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "common/api/list_fields.h"
#include "common/api/list_page.h"
#include "common/base/encoding.h"
#include "common/base/read_json.h"
#include "target/node/node.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::size_t kCheckBytesMax = 64U << 10U;
constexpr std::array kClouds{api::UpstreamKind::s3, api::UpstreamKind::gcs,
                             api::UpstreamKind::azure};

Task<Status> check_upstream_bucket(Upstream& upstream, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kCheckBytesMax));
  const json asked = json::parse(body, nullptr, false);
  if (!asked.is_object() || !asked.contains("bucket") || !asked.contains("props"))
    co_return fail(Errc::invalid_argument, "upstream: bucket and props are required");
  CO_TRY(const auto bucket, read_json(Errc::invalid_argument, "upstream",
                                      [&] { return asked["bucket"].get<api::Bucket>(); }));
  CO_TRY(const auto props, api::with_changes(api::BucketProps(), asked["props"]));
  CO_TRY_OK(api::check_upstream(bucket, props));
  const api::UpstreamProps wanted = api::upstream_of(bucket, props);
  const UpstreamServers& servers = upstream.servers();
  if (asked.value("configured", false) && !servers.is_configured(wanted.kind))
    co_return fail(Errc::bucket_not_found,
                   "{}: this target was started without a server or credentials for \"{}\"",
                   bucket.display(), bucket.provider);
  CO_TRY(const api::UpstreamProps found, co_await upstream.check_bucket(bucket, wanted));
  json server{{"extra", json::object()}};
  if (wanted.url.empty()) server = api::server_props(wanted.kind, servers.endpoint(wanted.kind));
  if (found.region != wanted.region) server["extra"]["aws"]["cloud_region"] = found.region;
  http::Response answer(200, http::kJson, server.dump());
  co_return co_await request.exchange.respond(std::move(answer));
}

Task<Status> list_upstream_buckets(Upstream& upstream, http::Request& request) {
  const auto provider = request.query().get("provider");
  json out = json::array();
  bool is_known = provider.empty();
  for (const api::UpstreamKind kind : kClouds) {
    api::Bucket bucket;
    bucket.provider = api::provider_of(kind);
    const bool is_asked = bucket.provider == provider;
    if (!is_asked && (!provider.empty() || !upstream.servers().is_configured(kind))) continue;
    is_known = true;
    CO_TRY(const auto names, co_await upstream.list_buckets(kind));
    for (const std::string& name : names) {
      bucket.name = name;
      if (api::check_bucket_name(name)) out.push_back(bucket);
    }
  }
  if (!is_known)
    co_return fail(Errc::invalid_argument, "provider \"{}\" has no accounts", provider);
  http::Response answer(200, http::kJson, out.dump());
  co_return co_await request.exchange.respond(std::move(answer));
}

/// Entries as those of a target's own list, but for the flag that they are here.
api::PackedPage packed(const std::vector<UpstreamPage::Entry>& entries,
                       const api::ListFields& fields, api::TimeFormat format, bool more) {
  api::PagePacker packer;
  for (const UpstreamPage::Entry& each : entries) {
    api::ListEntry entry;
    entry.name = each.name;
    std::string custom;
    std::string atime;
    if (each.name.ends_with('/')) {
      entry.flags = api::kEntryDirectory;
    } else {
      if (fields.size) entry.size = each.size;
      if (fields.etag && !each.etag.empty()) custom = "[ETag:" + each.etag + "]";
      if (fields.atime && each.modified)
        atime = api::format_time(*each.modified * 1'000'000'000, format);
      entry.custom = custom;
      entry.atime = atime;
    }
    packer.add(entry);
  }
  return packer.take(more);
}

/// Names that no request of ours could have are left out: they could not be read.
bool can_be_named(const UpstreamPage::Entry& entry) {
  return entry.name.ends_with('/') ? api::check_prefix(entry.name).has_value()
                                   : api::check_object_name(entry.name).has_value();
}

Task<Status> list_upstream(TargetNode& node, Upstream& upstream, http::Request& request) {
  const auto& query = request.query();
  const auto id = parse_u64(query.get("bucket"));
  const auto limit = parse_u64(query.get("limit"));
  const auto bmd_version = parse_u64(query.get("bmd"));
  if (!id || !limit || *limit == 0 || !bmd_version)
    co_return fail(Errc::invalid_argument, "list: bucket, bmd and limit are required");
  CO_TRY(const auto fields, api::parse_list_fields(query.get("props")));
  CO_TRY(const auto format, api::parse_time_format(query.get("time_format")));
  CO_TRY(const auto state, co_await node.view.at_least(0, *bmd_version));
  const auto* bucket = state->bmd.find(BucketId(*id));
  if (bucket == nullptr) co_return fail(Errc::bucket_not_found, "the bucket is gone");
  UpstreamListOrder order{std::string(query.get("prefix")), std::string(query.get("after")), *limit,
                          query.get("delimiter") == "/"};
  UpstreamPage page;
  do {
    CO_TRY(page, co_await upstream.list(bucket->name, api::upstream_of(bucket->name, bucket->props),
                                        order));
    if (page.more) order.after = page.entries.back().name;
    std::erase_if(page.entries, [](const auto& each) { return !can_be_named(each); });
  } while (page.entries.empty() && page.more);
  const auto out = packed(page.entries, fields, format, page.more);
  http::Response response(200, "application/msgpack", api::encode_page(out.entries, out.more));
  co_return co_await request.exchange.respond(std::move(response));
}

}  // namespace

std::vector<http::Route> upstream_routes(TargetNode& node, Upstream& upstream, ColdReads& reads) {
  return {
      {"POST", "/v1/internal/upstream/check", "whether upstream has a bucket",
       [&upstream](http::Request& request) { return check_upstream_bucket(upstream, request); }},
      {"GET", "/v1/internal/upstream/buckets", "the buckets of the account upstream",
       [&upstream](http::Request& request) { return list_upstream_buckets(upstream, request); }},
      {"GET", "/v1/internal/upstream/list", "a page of the names that upstream has",
       [&node, &upstream](http::Request& request) {
         return list_upstream(node, upstream, request);
       }},
      {"GET", "/v1/internal/upstream/fill", "the bytes of a fill that is under way",
       [&reads](http::Request& request) { return reads.send_fill(request); }}};
}

void export_upstream(obs::Metrics& metrics, Upstream& upstream, ColdReads& reads) {
  auto& running = metrics.gauge("tarn_upstream_fills_running",
                                "objects that are being fetched from upstream and stored");
  auto& open = metrics.gauge("tarn_upstream_circuits_open",
                             "upstream servers that are not asked, since they failed in a row");
  struct Row {
    prometheus::Counter& counter;
    const std::atomic<std::uint64_t>& count;
  };
  Upstream::Counts& counts = upstream.counts();
  const std::vector<Row> rows{
      {metrics.counter("tarn_upstream_requests_total",
                       "requests to upstream servers, tries included"),
       counts.requests},
      {metrics.counter("tarn_upstream_failed_total",
                       "of these, without an answer that could be used"),
       counts.failed},
      {metrics.counter("tarn_upstream_bytes_total", "bytes of objects that came from upstream"),
       counts.bytes},
      {metrics.counter("tarn_upstream_fills_total", "objects that were fetched whole and stored"),
       counts.fills},
      {metrics.counter("tarn_upstream_fills_failed_total",
                       "objects that could not be fetched, or not be stored"),
       counts.fills_failed},
      {metrics.counter("tarn_upstream_sent_bytes_total", "bytes of objects sent to upstream"),
       counts.sent_bytes},
      {metrics.counter("tarn_upstream_writes_total", "PUTs and DELETEs that upstream accepted"),
       counts.writes},
      {metrics.counter("tarn_upstream_writes_failed_total",
                       "PUTs and DELETEs that upstream refused or did not answer"),
       counts.writes_failed}};
  metrics.before_scrape([rows, &running, &open, &upstream, &reads] {
    for (const Row& row : rows)
      row.counter.Increment(static_cast<double>(row.count.load()) - row.counter.Value());
    running.Set(static_cast<double>(reads.board().running()));
    open.Set(static_cast<double>(upstream.gates().open()));
  });
}

}  // namespace tarn::target
