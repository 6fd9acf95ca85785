#include "target/upstream/dialect_s3.h"

#include <algorithm>
#include <array>
#include <ctime>

#include <pugixml.hpp>

#include "common/base/encoding.h"

namespace tarn::target {
namespace {

using security::RequestToSign;

constexpr const char* kLastCharacter = "\xF4\x8F\xBF\xBF";        // U+10FFFF
constexpr std::size_t kPageNamesMax = 1000;                       // S3's own limit
constexpr std::uint64_t kCopyBytesMax = std::uint64_t{5} << 30U;  // of CopyObject
/// Fields of an object that a copy has only if they are repeated.
constexpr std::array kFurtherFields{"Cache-Control",
                                    "Content-Disposition",
                                    "Content-Language",
                                    "Expires",
                                    "x-amz-storage-class",
                                    "x-amz-website-redirect-location",
                                    "x-amz-server-side-encryption",
                                    "x-amz-server-side-encryption-aws-kms-key-id",
                                    "x-amz-server-side-encryption-bucket-key-enabled",
                                    "x-amz-object-lock-mode",
                                    "x-amz-object-lock-retain-until-date",
                                    "x-amz-object-lock-legal-hold"};
constexpr const char* kBucketsOfPage = "1000";  // S3 has 10,000 at most

struct S3Error {
  std::string code;
  std::string message;
  std::string region;
};

/// S3's error XML; all empty for another text.
S3Error s3_error_in(std::string_view body) {
  pugi::xml_document xml;
  if (!xml.load_buffer(body.data(), body.size())) return {};
  const pugi::xml_node error = xml.child("Error");
  return {error.child_value("Code"), error.child_value("Message"), error.child_value("Region")};
}

/// The entity tag in the element `root` of an answer 200 to `what`, which may also be an error.
Result<std::string> tag_in_result(const UpstreamServer& server, std::string_view body,
                                  const char* root, std::string_view what) {
  pugi::xml_document xml;
  static_cast<void>(xml.load_buffer(body.data(), body.size()));
  if (std::string tag = xml.child(root).child_value("ETag"); !tag.empty()) return tag;
  const auto [code, message, region] = s3_error_in(body);
  const bool may_pass = code.empty() || code == "InternalError" || code == "SlowDown" ||
                        code == "ServiceUnavailable" || code == "RequestTimeout";
  return fail(may_pass ? Errc::unavailable : Errc::bad_upstream, "{} did not complete {}: {}",
              server.display(), what,
              code.empty() ? "its answer has no entity tag" : printable(code + ": " + message));
}

}  // namespace

std::optional<std::int64_t> parse_iso_time(const char* text) {
  std::tm parts{};
  const char* end = ::strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr) return std::nullopt;
  return ::timegm(&parts);
}

http::ClientRequest s3_request(const UpstreamServer& server, http::Method method,
                               const std::string& path, RequestToSign::Pairs query,
                               http::Fields more, std::int64_t now, std::string_view payload) {
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

http::ClientRequest S3Dialect::object_request(const UpstreamServer& server, http::Method method,
                                              std::string_view object, http::Fields more,
                                              std::int64_t now) const {
  more.push_back({"x-amz-checksum-mode", "ENABLED"});
  return s3_request(server, method, upstream_path(server, object), {}, std::move(more), now);
}

http::ClientRequest S3Dialect::bucket_request(const UpstreamServer& server,
                                              std::int64_t now) const {
  return s3_request(server, http::Method::head, service_path(server), {}, {}, now);
}

Result<http::ClientRequest> S3Dialect::list_request(const UpstreamServer& server,
                                                    const UpstreamListOrder& order,
                                                    std::int64_t now) const {
  RequestToSign::Pairs query{{"list-type", "2"},
                             {"max-keys", std::to_string(std::min(order.limit, kPageNamesMax))}};
  if (!order.prefix.empty()) query.emplace_back("prefix", order.prefix);
  // After a virtual directory: after everything in it, or it would be listed again.
  if (order.by_directory && order.after.ends_with('/'))
    query.emplace_back("start-after", order.after + kLastCharacter);
  else if (!order.after.empty())
    query.emplace_back("start-after", order.after);
  if (order.by_directory) query.emplace_back("delimiter", "/");
  if (!order.marker.empty()) query.emplace_back("continuation-token", order.marker);
  return s3_request(server, http::Method::get, service_path(server), std::move(query), {}, now);
}

Result<UpstreamObject> S3Dialect::object_in(const UpstreamServer& server,
                                            const http::ClientResponse& answer) const {
  TRY(UpstreamObject out, described_object(server, answer));
  out.checksums = checksums_in(answer, is_part_of(out, answer));
  for (const char* name : kFurtherFields)
    if (const auto value = answer.field(name); !value.empty())
      out.further.push_back({name, std::string(value)});
  return out;
}

/// S3 sends for uploads in parts checksums of the parts together, and for a part of an object the
/// entity tag of the whole.
http::Fields S3Dialect::checksums_in(const http::ClientResponse& answer, bool is_part) const {
  http::Fields out;
  const std::string md5 = md5_in(answer);
  if (is_part) {
    if (!md5.empty()) out.push_back({"Content-MD5", md5});
    return out;
  }
  if (const auto said = answer.field("Content-MD5"); !said.empty())
    out.push_back({"Content-MD5", std::string(said)});
  else if (!md5.empty())
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

Result<UpstreamPage> S3Dialect::page_in(const UpstreamServer& server,
                                        const UpstreamListOrder& order,
                                        std::string_view body) const {
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
  tidy_page(out, order.after);
  out.marker = list.child_value("NextContinuationToken");
  out.more = std::string_view(list.child_value("IsTruncated")) == "true" &&
             (!out.entries.empty() || !out.marker.empty());
  return out;
}

http::ClientRequest S3Dialect::buckets_request(const UpstreamServer& account,
                                               const std::string& marker, std::int64_t now) const {
  // Without a number AWS refuses accounts that may have more than 10,000.
  RequestToSign::Pairs query{{"max-buckets", kBucketsOfPage}};
  if (!marker.empty()) query.emplace_back("continuation-token", marker);
  return s3_request(account, http::Method::get, service_path(account), std::move(query), {}, now);
}

Result<UpstreamBuckets> S3Dialect::buckets_in(const UpstreamServer& account,
                                              std::string_view body) const {
  pugi::xml_document xml;
  const auto parsed = xml.load_buffer(body.data(), body.size());
  const pugi::xml_node list = xml.child("ListAllMyBucketsResult");
  if (!parsed || !list)
    return fail(Errc::bad_upstream, "{} answered with no list of buckets: {}", account.display(),
                parsed ? "another document" : parsed.description());
  UpstreamBuckets out;
  for (const pugi::xml_node each : list.child("Buckets").children("Bucket"))
    out.names.emplace_back(each.child_value("Name"));
  out.marker = list.child_value("ContinuationToken");
  return out;
}

Dialect::Said S3Dialect::said_in(const http::ClientResponse& answer) const {
  auto [code, message, region] = s3_error_in(answer.body);
  const std::string_view told = answer.field("x-amz-bucket-region");
  if (!told.empty()) region = told;
  return {std::move(code), std::move(message), std::move(region)};
}

http::ClientRequest S3Dialect::change_request(const UpstreamServer& server, std::string_view object,
                                              UpstreamChange change, std::int64_t now) const {
  const std::string payload = change.streamed_bytes ? std::string(security::kUnsignedPayload)
                                                    : security::sha256_hex(change.body);
  http::ClientRequest out =
      s3_request(server, change.method, upstream_path(server, object), std::move(change.query),
                 std::move(change.fields), now, payload);
  out.body = std::move(change.body);
  return out;
}

bool S3Dialect::keeps_key(std::string_view key) const {
  return std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

UpstreamChange S3Dialect::put_whole(const http::Fields& fields, const std::string& md5) const {
  UpstreamChange out{http::Method::put, {}, fields};
  out.fields.push_back({"Content-MD5", md5});
  return out;
}

std::optional<UpstreamChange> S3Dialect::begin_upload(const http::Fields& fields) const {
  return UpstreamChange{http::Method::post, {{"uploads", ""}}, fields};
}

Result<std::string> S3Dialect::upload_id_in(const UpstreamServer& server,
                                            std::string_view body) const {
  pugi::xml_document xml;
  std::string id;
  if (xml.load_buffer(body.data(), body.size()))
    id = xml.child("InitiateMultipartUploadResult").child_value("UploadId");
  if (!id.empty()) return id;
  return fail(Errc::bad_upstream, "{} began an upload in parts without an UploadId",
              server.display());
}

UpstreamChange S3Dialect::put_part(const std::string& id, std::uint64_t number,
                                   const std::string& md5) const {
  return {http::Method::put,
          {{"partNumber", std::to_string(number)}, {"uploadId", id}},
          {{"Content-MD5", md5}}};
}

Result<std::string> S3Dialect::part_tag_in(const http::ClientResponse& answer,
                                           const std::string& /*id*/, std::uint64_t number) const {
  std::string tag(answer.field("ETag"));
  if (!tag.empty()) return tag;
  return fail(Errc::bad_upstream, "upstream accepted part {} and answered without ETag", number);
}

UpstreamChange S3Dialect::complete_upload(const std::string& id,
                                          const std::vector<std::string>& tags,
                                          const http::Fields& /*fields*/) const {
  UpstreamChange out{http::Method::post, {{"uploadId", id}}, {{"Content-Type", "application/xml"}}};
  out.body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < tags.size(); ++i)
    out.body +=
        fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, tags[i]);
  out.body += "</CompleteMultipartUpload>";
  return out;
}

Result<std::string> S3Dialect::completed_tag_in(const UpstreamServer& server,
                                                const http::ClientResponse& answer) const {
  return tag_in_result(server, answer.body, "CompleteMultipartUploadResult", "an upload in parts");
}

Result<UpstreamChange> S3Dialect::set_metadata(const UpstreamServer& server,
                                               std::string_view object, const UpstreamObject& now,
                                               const http::Fields& fields) const {
  if (now.size.value_or(0) > kCopyBytesMax)
    return fail(Errc::unsupported,
                "{} changes the metadata of objects of up to 5 GiB, and this one has {} bytes: "
                "write it again with what it is to have",
                server.display(), *now.size);
  std::string source = "/" + server.bucket + "/";
  append_percent_encoded(source, object, "/");
  UpstreamChange out{http::Method::put, {}, fields};
  out.fields.push_back({"x-amz-copy-source", std::move(source)});
  out.fields.push_back({"x-amz-copy-source-if-match", now.etag});
  // Names what the copy replaces, when it has been made: it may take long.
  out.fields.push_back({"If-Match", now.etag});
  out.fields.push_back({"x-amz-metadata-directive", "REPLACE"});
  out.fields.insert(out.fields.end(), now.further.begin(), now.further.end());
  return out;
}

Result<std::string> S3Dialect::changed_tag_in(const UpstreamServer& server,
                                              const http::ClientResponse& answer) const {
  return tag_in_result(server, answer.body, "CopyObjectResult", "a change of metadata");
}

std::optional<UpstreamChange> S3Dialect::abort_upload(const std::string& id) const {
  return UpstreamChange{http::Method::del, {{"uploadId", id}}};
}

std::string S3Dialect::md5_in(const http::ClientResponse& answer) const {
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

}  // namespace tarn::target
