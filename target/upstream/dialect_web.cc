#include "target/upstream/dialect_web.h"

namespace tarn::target {
namespace {

tl::unexpected<Error> without_lists(const UpstreamServer& server) {
  return fail(Errc::unsupported,
              "{} is a web server, which has no list of its objects: ask for what the cluster has "
              "of it (flag CACHED, or tarn ls --cached)",
              server.display());
}

}  // namespace

http::ClientRequest WebDialect::object_request(const UpstreamServer& server, http::Method method,
                                               std::string_view object, http::Fields more,
                                               std::int64_t /*now*/) const {
  http::ClientRequest out;
  out.method = method;
  out.target = upstream_path(server, object);
  out.fields = std::move(more);
  // Clients get what is stored: not what a server packed for one transfer.
  out.fields.push_back({"Accept-Encoding", "identity"});
  return out;
}

http::ClientRequest WebDialect::bucket_request(const UpstreamServer& server,
                                               std::int64_t /*now*/) const {
  http::ClientRequest out;
  out.method = http::Method::head;
  out.target = server.url.path + "/";
  return out;
}

Result<http::ClientRequest> WebDialect::list_request(const UpstreamServer& server,
                                                     const UpstreamListOrder& /*order*/,
                                                     std::int64_t /*now*/) const {
  return without_lists(server);
}

Result<UpstreamObject> WebDialect::object_in(const UpstreamServer& server,
                                             const http::ClientResponse& answer) const {
  TRY(UpstreamObject out, described_object(server, answer));
  // A server may send with a part the checksum of the part, or that of the whole.
  const auto md5 = answer.field("Content-MD5");
  if (!md5.empty() && !is_part_of(out, answer))
    out.checksums.push_back({"Content-MD5", std::string(md5)});
  if (!out.checksums.empty()) return out;
  // A cloud's own URLs are web servers, too, and send checksums as the cloud does.
  const bool is_google = !answer.field("x-goog-hash").empty();
  const bool is_s3 = !answer.field("x-amz-request-id").empty() && !out.etag.empty();
  if (!is_google && !is_s3) return out;
  const auto kind = is_google ? api::UpstreamKind::gcs : api::UpstreamKind::s3;
  TRY(const UpstreamObject described, writable_dialect_of(kind)->object_in(server, answer));
  out.checksums = described.checksums;
  return out;
}

Result<UpstreamPage> WebDialect::page_in(const UpstreamServer& server,
                                         const UpstreamListOrder& /*order*/,
                                         std::string_view /*body*/) const {
  return without_lists(server);
}

Dialect::Said WebDialect::said_in(const http::ClientResponse& /*answer*/) const { return {}; }

}  // namespace tarn::target
