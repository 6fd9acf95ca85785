#include "target/upstream/dialect.h"

#include <algorithm>

#include "common/base/encoding.h"
#include "target/upstream/dialect_azure.h"
#include "target/upstream/dialect_s3.h"
#include "target/upstream/dialect_web.h"

namespace tarn::target {
namespace {

constexpr std::size_t kSaidBytesMax = 200;

/// "bytes 5-9/100" of Content-Range: where the part begins, and the size of the whole.
std::optional<std::pair<std::uint64_t, std::uint64_t>> part_of(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const auto dash = text.find('-');
  const auto slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos) return std::nullopt;
  const auto first = parse_u64(text.substr(0, dash));
  const auto whole = parse_u64(text.substr(slash + 1));
  if (!first || !whole) return std::nullopt;
  return std::pair(*first, *whole);
}

std::string_view first_line(std::string_view text) { return trim(text.substr(0, text.find('\n'))); }

/// Pairs that no answer of ours could have are left out, and noted. S3 leaves out some as well.
void take_custom(const http::ClientResponse& answer, UpstreamObject& object) {
  api::CustomMetadata& out = object.custom;
  object.hides_metadata = parse_u64(answer.field("x-amz-missing-meta")).value_or(0) > 0;
  for (const http::Field& field : answer.fields) {
    const std::string name = to_lower(field.name);
    for (const std::string_view prefix : {"x-amz-meta-", "x-goog-meta-", "x-ms-meta-"}) {
      if (!name.starts_with(prefix)) continue;
      out.emplace_back(name.substr(prefix.size()), field.value);
      if (api::check_custom_metadata(out) && !api::is_reserved_key(out.back().first)) continue;
      out.pop_back();
      object.hides_metadata = true;
    }
  }
}

}  // namespace

bool UpstreamObject::is_same_version(const UpstreamObject& other) const {
  if (size != other.size || etag.empty() || etag.starts_with("W/")) return false;
  return etag == other.etag;
}

bool Dialect::understands_part(const http::Fields& /*fields*/) const { return true; }

Refusal Dialect::refusal_in(const UpstreamServer& server, std::string_view about,
                            const http::ClientResponse& answer) const {
  Refusal out;
  const auto [code, message, region] = said_in(answer);
  std::string said = code;
  if (!code.empty() && !message.empty()) said += fmt::format(": {}", first_line(message));
  // A line of text, but no page for people.
  if (said.empty() && !answer.body.starts_with('<')) said = first_line(answer.body);
  if (said.size() > kSaidBytesMax) said.resize(kSaidBytesMax);
  out.error.message = fmt::format("{}: {} answered {}{}{}", about, server.display(), answer.status,
                                  said.empty() ? "" : " ", printable(said));
  const unsigned status = answer.status;
  out.may_pass =
      status == 408 || status == 429 || (status >= 500 && status != 501 && status != 505);
  out.is_absent = status == 404 || status == 410;
  out.names_object = code == "NoSuchKey" || code == "BlobNotFound";
  out.names_bucket = code == "NoSuchBucket" || code == "ContainerNotFound";
  out.error.code = Errc::bad_upstream;
  if (out.may_pass) out.error.code = Errc::unavailable;
  if (out.is_absent) out.error.code = Errc::object_not_found;
  if (status == 401 || status == 403) out.error.code = Errc::forbidden;
  // Azure refuses changes of what is under a lease so: that is no condition of ours.
  const bool is_leased = code.starts_with("Lease");
  if (status == 412) out.error.code = is_leased ? Errc::forbidden : Errc::precondition_failed;
  if (status == 416) out.error.code = Errc::range_not_satisfiable;
  if (out.error.code == Errc::forbidden && !server.is_signed() &&
      server.kind != api::UpstreamKind::web)
    out.error.message +=
        "; it was asked without credentials, since this target has none for it (docs/upstream.md)";
  if (server.kind == api::UpstreamKind::s3 && region != server.region) out.region = region;
  if (!out.region.empty())
    out.error.message += fmt::format(
        "; the bucket is in the region {}: set its property "
        "extra.aws.cloud_region to that",
        printable(region));
  // Credentials of a role: renewed ones may be here a moment later.
  if (code == "ExpiredToken") out.error.code = Errc::unavailable;
  if (code == "InvalidBlockList") {
    out.error.code = Errc::unavailable;
    out.error.message +=
        "; another write of the object has taken its place meanwhile, and nothing was changed by "
        "this one: send it again";
  }
  if (status / 100 == 3)
    out.error.message +=
        fmt::format("; redirects are not followed: name the server that has the objects{}",
                    answer.field("Location").empty()
                        ? ""
                        : fmt::format(" ({})", printable(answer.field("Location"))));
  return out;
}

const Dialect& dialect_of(const UpstreamServer& server) {
  static const WebDialect web;
  const auto writable = writable_dialect_of(server);
  if (writable) return **writable;
  return web;
}

const WritableDialect* writable_dialect_of(api::UpstreamKind kind) {
  static const S3Dialect s3;
  static const GcsDialect gcs;
  static const AzureDialect azure;
  switch (kind) {
    case api::UpstreamKind::s3: return &s3;
    case api::UpstreamKind::gcs: return &gcs;
    case api::UpstreamKind::azure: return &azure;
    case api::UpstreamKind::web: break;
  }
  return nullptr;
}

Result<const WritableDialect*> writable_dialect_of(const UpstreamServer& server) {
  if (const auto* dialect = writable_dialect_of(server.kind)) return dialect;
  return fail(Errc::unsupported, "{} is a web server, which takes no writes", server.display());
}

std::string service_path(const UpstreamServer& server) {
  return server.url.path.empty() ? "/" : server.url.path;
}

std::string upstream_path(const UpstreamServer& server, std::string_view object) {
  std::string out = server.url.path + "/";
  append_percent_encoded(out, object, "/");
  return out;
}

Result<UpstreamObject> described_object(const UpstreamServer& server,
                                        const http::ClientResponse& answer) {
  UpstreamObject out;
  out.etag = answer.field("ETag");
  out.modified = http::parse_http_date(answer.field("Last-Modified"));
  out.content_type = answer.field("Content-Type");
  out.content_encoding = answer.field("Content-Encoding");
  if (server.kind != api::UpstreamKind::web) take_custom(answer, out);
  if (server.kind != api::UpstreamKind::web && out.etag.empty())
    return fail(Errc::bad_upstream, "{} answered without the field ETag, which such servers have",
                server.display());
  if (answer.status != 206) {
    out.size = parse_u64(answer.field("Content-Length"));
    return out;
  }
  const auto part = part_of(answer.field("Content-Range"));
  if (!part)
    return fail(Errc::bad_upstream, "{} sent a part whose Content-Range cannot be read: '{}'",
                server.display(), printable(answer.field("Content-Range")));
  out.part_at = part->first;
  out.size = part->second;
  return out;
}

bool is_part_of(const UpstreamObject& object, const http::ClientResponse& answer) {
  if (!object.part_at) return false;
  return object.part_at != 0 || parse_u64(answer.field("Content-Length")) != object.size;
}

void tidy_page(UpstreamPage& page, std::string_view after) {
  std::erase_if(page.entries, [&](const auto& each) { return each.name <= after; });
  std::sort(page.entries.begin(), page.entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

}  // namespace tarn::target
