#include "target/upstream/dialect.h"

#include <algorithm>
#include <ctime>

#include <pugixml.hpp>

#include "common/base/encoding.h"

namespace tarn::target {
namespace {

using security::RequestToSign;

constexpr std::size_t kSaidBytesMax = 200;
constexpr const char* kLastCharacter = "\xF4\x8F\xBF\xBF";  // U+10FFFF
constexpr std::size_t kPageNamesMax = 1000;                 // S3's own limit

bool is_s3(const UpstreamServer& server) { return server.kind == api::UpstreamKind::s3; }

/// Completes a request to S3: the query as it is signed, date, payload and signature.
http::ClientRequest s3_request(const UpstreamServer& server, http::Method method,
                               const std::string& path, RequestToSign::Pairs query,
                               http::Fields more, std::int64_t now,
                               std::string_view payload = security::kEmptyPayload) {
  http::ClientRequest out;
  out.method = method;
  out.target = path;
  if (!query.empty()) out.target += "?" + security::canonical_query(query);
  out.fields = std::move(more);
  if (!server.credentials) return out;
  const std::string date = security::amz_date(now);
  out.fields.push_back({"x-amz-date", date});
  out.fields.push_back({"x-amz-content-sha256", std::string(payload)});
  if (!server.credentials->session_token.empty())
    out.fields.push_back({"x-amz-security-token", server.credentials->session_token});
  RequestToSign signed_part;
  signed_part.method = http::to_string(method);
  signed_part.path = path;
  signed_part.query = std::move(query);
  signed_part.headers.emplace_back("Host", server.url.host_field());
  for (const http::Field& field : out.fields)
    if (field.name.starts_with("x-amz-")) signed_part.headers.emplace_back(field.name, field.value);
  signed_part.payload = payload;
  signed_part.amz_date = date;
  out.fields.push_back(
      {"Authorization",
       security::sigv4_authorization(signed_part, *server.credentials, server.region, "s3")});
  return out;
}

std::string path_of(const UpstreamServer& server, std::string_view object) {
  std::string out = server.url.path + "/";
  append_percent_encoded(out, object, "/");
  return out;
}

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

/// Those that are of the whole body; S3 says of multipart uploads those of the parts together, and
/// of a part (`is_part`) the entity tag of the whole.
http::Fields checksums_in(const UpstreamServer& server, const http::ClientResponse& answer,
                          bool is_part) {
  http::Fields out;
  if (is_part) {
    if (const std::string md5 = is_s3(server) ? md5_in(answer) : ""; !md5.empty())
      out.push_back({"Content-MD5", md5});
    return out;
  }
  if (const auto md5 = answer.field("Content-MD5"); !md5.empty())
    out.push_back({"Content-MD5", std::string(md5)});
  if (!is_s3(server)) return out;
  if (const std::string md5 = md5_in(answer); !md5.empty() && out.empty())
    out.push_back({"Content-MD5", md5});
  if (iequals(answer.field("x-amz-checksum-type"), "COMPOSITE")) return out;
  for (const char* name : {"x-amz-checksum-crc32c", "x-amz-checksum-crc32", "x-amz-checksum-sha1",
                           "x-amz-checksum-sha256"}) {
    const auto value = answer.field(name);
    if (!value.empty() && value.find('-') == std::string_view::npos)
      out.push_back({name, std::string(value)});
  }
  return out;
}

/// "2026-11-26T10:11:12.000Z".
std::optional<std::int64_t> parse_iso_time(const char* text) {
  std::tm parts{};
  const char* end = ::strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr) return std::nullopt;
  return ::timegm(&parts);
}

/// The code and message of S3's error XML; both empty for another text.
std::pair<std::string, std::string> s3_error_in(std::string_view body) {
  pugi::xml_document xml;
  if (!xml.load_buffer(body.data(), body.size())) return {};
  const pugi::xml_node error = xml.child("Error");
  return {error.child_value("Code"), error.child_value("Message")};
}

}  // namespace

std::string md5_in(const http::ClientResponse& answer) {
  const std::string_view encryption = answer.field("x-amz-server-side-encryption");
  if (encryption.starts_with("aws:kms") ||
      !answer.field("x-amz-server-side-encryption-customer-algorithm").empty())
    return "";
  std::string_view tag = answer.field("ETag");
  constexpr std::size_t kQuotedMd5 = 34;
  if (tag.size() != kQuotedMd5 || tag.front() != '"') return "";
  const auto bytes = unhex(tag.substr(1, kQuotedMd5 - 2));
  return bytes ? base64(*bytes) : "";
}

bool UpstreamObject::is_same_version(const UpstreamObject& other) const {
  if (size != other.size || etag.empty() || etag.starts_with("W/")) return false;
  return etag == other.etag;
}

http::ClientRequest object_request(const UpstreamServer& server, http::Method method,
                                   std::string_view object, http::Fields more, std::int64_t now) {
  const std::string path = path_of(server, object);
  if (is_s3(server)) {
    more.push_back({"x-amz-checksum-mode", "ENABLED"});
    return s3_request(server, method, path, {}, std::move(more), now);
  }
  http::ClientRequest out;
  out.method = method;
  out.target = path;
  out.fields = std::move(more);
  // What is stored is what the client gets: not what a server packed for one transfer.
  out.fields.push_back({"Accept-Encoding", "identity"});
  return out;
}

Result<http::ClientRequest> change_request(const UpstreamServer& server, std::string_view object,
                                           UpstreamChange change, std::int64_t now) {
  if (!is_s3(server))
    return fail(Errc::unsupported, "{} is a web server, which takes no writes", server.display());
  const std::string payload = change.has_streamed_body ? std::string(security::kUnsignedPayload)
                                                       : security::sha256_hex(change.body);
  http::ClientRequest out =
      s3_request(server, change.method, path_of(server, object), std::move(change.query),
                 std::move(change.fields), now, payload);
  out.body = std::move(change.body);
  return out;
}

Result<std::string> upload_id_in(const UpstreamServer& server, std::string_view body) {
  pugi::xml_document xml;
  std::string id;
  if (xml.load_buffer(body.data(), body.size()))
    id = xml.child("InitiateMultipartUploadResult").child_value("UploadId");
  if (!id.empty()) return id;
  return fail(Errc::bad_upstream, "{} began an upload in parts without an UploadId",
              server.display());
}

std::string complete_body(const std::vector<std::string>& tags) {
  std::string out = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < tags.size(); ++i)
    out += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, tags[i]);
  return out + "</CompleteMultipartUpload>";
}

Result<std::string> completed_tag_in(const UpstreamServer& server, std::string_view body) {
  pugi::xml_document xml;
  static_cast<void>(xml.load_buffer(body.data(), body.size()));
  if (std::string tag = xml.child("CompleteMultipartUploadResult").child_value("ETag");
      !tag.empty())
    return tag;
  const auto [code, message] = s3_error_in(body);
  const bool may_pass = code.empty() || code == "InternalError" || code == "SlowDown" ||
                        code == "ServiceUnavailable" || code == "RequestTimeout";
  return fail(may_pass ? Errc::unavailable : Errc::bad_upstream,
              "{} did not complete an upload in parts: {}", server.display(),
              code.empty() ? "its answer has no entity tag" : printable(code + ": " + message));
}

http::ClientRequest bucket_request(const UpstreamServer& server, std::int64_t now) {
  const std::string path = server.url.path.empty() ? "/" : server.url.path;
  if (is_s3(server)) return s3_request(server, http::Method::head, path, {}, {}, now);
  http::ClientRequest out;
  out.method = http::Method::head;
  out.target = server.url.path + "/";
  return out;
}

Result<http::ClientRequest> list_request(const UpstreamServer& server, std::string_view prefix,
                                         std::string_view after, std::size_t limit,
                                         bool by_directory, std::int64_t now) {
  if (!is_s3(server))
    return fail(Errc::unsupported,
                "{} is a web server, which has no list of its objects: ask for what the cluster "
                "has of it (flag CACHED, or tarn ls --cached)",
                server.display());
  RequestToSign::Pairs query{{"list-type", "2"},
                             {"max-keys", std::to_string(std::min(limit, kPageNamesMax))}};
  if (!prefix.empty()) query.emplace_back("prefix", prefix);
  // Behind a virtual directory: behind everything in it, or it would be listed again.
  if (by_directory && after.ends_with('/'))
    query.emplace_back("start-after", std::string(after) + kLastCharacter);
  else if (!after.empty())
    query.emplace_back("start-after", after);
  if (by_directory) query.emplace_back("delimiter", "/");
  const std::string path = server.url.path.empty() ? "/" : server.url.path;
  return s3_request(server, http::Method::get, path, std::move(query), {}, now);
}

Result<UpstreamObject> object_in(const UpstreamServer& server, const http::ClientResponse& answer) {
  UpstreamObject out;
  out.etag = answer.field("ETag");
  out.modified = http::parse_http_date(answer.field("Last-Modified"));
  out.content_type = answer.field("Content-Type");
  out.content_encoding = answer.field("Content-Encoding");
  if (is_s3(server) && out.etag.empty())
    return fail(Errc::bad_upstream, "{} answered without the field ETag, which S3 has",
                server.display());
  if (answer.status == 206) {
    const auto part = part_of(answer.field("Content-Range"));
    if (!part)
      return fail(Errc::bad_upstream, "{} sent a part whose Content-Range cannot be read: '{}'",
                  server.display(), printable(answer.field("Content-Range")));
    out.part_at = part->first;
    out.size = part->second;
    const auto length = parse_u64(answer.field("Content-Length"));
    out.checksums = checksums_in(server, answer, out.part_at != 0 || length != out.size);
    return out;
  }
  out.size = parse_u64(answer.field("Content-Length"));
  out.checksums = checksums_in(server, answer, false);
  return out;
}

Result<UpstreamPage> page_in(const UpstreamServer& server, std::string_view body) {
  pugi::xml_document xml;
  const auto parsed = xml.load_buffer(body.data(), body.size());
  const pugi::xml_node list = xml.child("ListBucketResult");
  if (!parsed || !list)
    return fail(Errc::bad_upstream, "{} answered with no list of S3: {}", server.display(),
                parsed ? "another document" : parsed.description());
  UpstreamPage out;
  for (const pugi::xml_node each : list.children("Contents")) {
    UpstreamPage::Entry entry;
    entry.name = each.child_value("Key");
    entry.size = parse_u64(each.child_value("Size")).value_or(0);
    entry.etag = each.child_value("ETag");
    entry.modified = parse_iso_time(each.child_value("LastModified"));
    out.entries.push_back(std::move(entry));
  }
  for (const pugi::xml_node each : list.children("CommonPrefixes"))
    out.entries.push_back({each.child_value("Prefix"), 0, "", std::nullopt});
  std::sort(out.entries.begin(), out.entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  out.more = std::string_view(list.child_value("IsTruncated")) == "true" && !out.entries.empty();
  return out;
}

Refusal refusal_in(const UpstreamServer& server, std::string_view about,
                   const http::ClientResponse& answer) {
  Refusal out;
  const auto [code, message] =
      is_s3(server) ? s3_error_in(answer.body) : std::pair<std::string, std::string>();
  std::string said = code.empty() ? "" : code + ": " + message;
  // A line of text, but no page for people.
  if (said.empty() && !answer.body.starts_with('<'))
    said = trim(std::string_view(answer.body).substr(0, answer.body.find('\n')));
  if (said.size() > kSaidBytesMax) said.resize(kSaidBytesMax);
  out.error.message = fmt::format("{}: {} answered {}{}{}", about, server.display(), answer.status,
                                  said.empty() ? "" : " ", printable(said));
  const unsigned status = answer.status;
  out.may_pass = status == 429 || (status >= 500 && status != 501 && status != 505);
  out.is_absent = status == 404 || status == 410;
  out.names_object = code == "NoSuchKey";
  out.names_bucket = code == "NoSuchBucket";
  out.error.code = Errc::bad_upstream;
  if (out.may_pass) out.error.code = Errc::unavailable;
  if (out.is_absent) out.error.code = Errc::object_not_found;
  if (status == 401 || status == 403) out.error.code = Errc::forbidden;
  if (status == 412) out.error.code = Errc::precondition_failed;
  if (status == 416) out.error.code = Errc::range_not_satisfiable;
  if (status / 100 == 3)
    out.error.message +=
        fmt::format("; redirects are not followed: name the server that has the objects{}",
                    answer.field("Location").empty()
                        ? ""
                        : fmt::format(" ({})", printable(answer.field("Location"))));
  return out;
}

}  // namespace tarn::target
