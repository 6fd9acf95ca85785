#include "target/upstream/dialect_azure.h"

#include <algorithm>

#include <pugixml.hpp>

#include "common/base/encoding.h"
#include "common/security/azure_signature.h"

namespace tarn::target {
namespace {

using Pairs = security::AzureRequest::Pairs;

/// The first version that has startFrom in List Blobs.
constexpr const char* kServiceVersion = "2026-02-06";
constexpr std::size_t kBlobsMax = 5000;  // of a page: the service's own limit

/// A request, signed. `length`: of its body.
http::ClientRequest azure_request(const UpstreamServer& server, http::Method method,
                                  const std::string& path, Pairs query, http::Fields more,
                                  std::uint64_t length, std::int64_t now) {
  http::ClientRequest out;
  out.method = method;
  out.target = path;
  if (!query.empty()) out.target += "?" + security::canonical_query(query);
  out.fields = std::move(more);
  out.fields.push_back({"x-ms-version", kServiceVersion});
  if (!server.azure) return out;
  if (!server.azure->sas.empty()) {
    out.target += (query.empty() ? "?" : "&") + server.azure->sas;
    return out;
  }
  out.fields.push_back({"x-ms-date", http::http_date(now)});
  security::AzureRequest signed_part;
  signed_part.method = http::to_string(method);
  signed_part.path = path;
  signed_part.query = std::move(query);
  for (const http::Field& field : out.fields)
    signed_part.headers.emplace_back(field.name, field.value);
  signed_part.content_length = length;
  out.fields.push_back(
      {"Authorization", security::azure_authorization(signed_part, *server.azure)});
  return out;
}

/// Content-Type and Content-Encoding of a blob, as fields that are not about the request's body,
/// and its custom metadata.
http::Fields blob_fields(const http::Fields& fields) {
  http::Fields out;
  for (const http::Field& field : fields) {
    const bool is_metadata = field.name.starts_with("x-ms-");
    out.push_back({is_metadata ? field.name : "x-ms-blob-" + to_lower(field.name), field.value});
  }
  return out;
}

/// All block ids of a blob have the same length.
std::string block_id(const std::string& id, std::uint64_t number) {
  return base64(fmt::format("{}{:08}", id, number));
}

/// "bytes=5-9" or "bytes=5-".
bool is_plain_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes=";
  if (!text.starts_with(kUnit)) return false;
  text.remove_prefix(kUnit.size());
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return false;
  const auto first = parse_u64(text.substr(0, dash));
  const auto last = text.substr(dash + 1);
  return first && (last.empty() || parse_u64(last).value_or(0) >= *first);
}

/// A name with characters that XML cannot have is percent-encoded.
std::string blob_name_in(const pugi::xml_node& entry) {
  const pugi::xml_node name = entry.child("Name");
  std::string text = name.child_value();
  if (!name.attribute("Encoded").as_bool()) return text;
  return percent_decode(text).value_or(text);
}

/// The entity tag in the answer to `what`, which was accepted. bad_upstream without one.
Result<std::string> tag_in_answer(const UpstreamServer& server, const http::ClientResponse& answer,
                                  std::string_view what) {
  std::string tag(answer.field("ETag"));
  if (!tag.empty()) return tag;
  return fail(Errc::bad_upstream, "{} accepted {} and answered without ETag", server.display(),
              what);
}

/// In lists entity tags have no quotes.
std::string quoted(std::string tag) {
  if (tag.empty() || tag.starts_with('"')) return tag;
  return "\"" + tag + "\"";
}

}  // namespace

http::ClientRequest AzureDialect::object_request(const UpstreamServer& server, http::Method method,
                                                 std::string_view object, http::Fields more,
                                                 std::int64_t now) const {
  return azure_request(server, method, upstream_path(server, object), {}, std::move(more), 0, now);
}

bool AzureDialect::understands_part(const http::Fields& fields) const {
  const auto range = http::find_field(fields, "Range");
  return http::find_field(fields, "If-Range").empty() && (range.empty() || is_plain_range(range));
}

/// A list: few signatures allow the properties of a container to be read.
http::ClientRequest AzureDialect::bucket_request(const UpstreamServer& server,
                                                 std::int64_t now) const {
  return azure_request(server, http::Method::get, server.url.path,
                       {{"restype", "container"}, {"comp", "list"}, {"maxresults", "1"}}, {}, 0,
                       now);
}

Result<http::ClientRequest> AzureDialect::list_request(const UpstreamServer& server,
                                                       const UpstreamListOrder& order,
                                                       std::int64_t now) const {
  // The list begins with `after` itself, if that is a name.
  const std::size_t wanted = order.limit + (order.after.empty() ? 0 : 1);
  Pairs query{{"restype", "container"},
              {"comp", "list"},
              {"maxresults", std::to_string(std::min(wanted, kBlobsMax))}};
  if (!order.prefix.empty()) query.emplace_back("prefix", order.prefix);
  if (!order.after.empty()) query.emplace_back("startFrom", order.after);
  if (order.by_directory) query.emplace_back("delimiter", "/");
  if (!order.marker.empty()) query.emplace_back("marker", order.marker);
  return azure_request(server, http::Method::get, server.url.path, std::move(query), {}, 0, now);
}

Result<UpstreamObject> AzureDialect::object_in(const UpstreamServer& server,
                                               const http::ClientResponse& answer) const {
  TRY(UpstreamObject out, described_object(server, answer));
  // The field of other blobs is what a client has once sent, and appends do not change it.
  const auto type = answer.field("x-ms-blob-type");
  if (!type.empty() && type != "BlockBlob") return out;
  auto md5 = answer.field("x-ms-blob-content-md5");
  if (md5.empty() && !is_part_of(out, answer)) md5 = answer.field("Content-MD5");
  if (!md5.empty()) out.checksums.push_back({"Content-MD5", std::string(md5)});
  return out;
}

Result<UpstreamPage> AzureDialect::page_in(const UpstreamServer& server,
                                           const UpstreamListOrder& order,
                                           std::string_view body) const {
  pugi::xml_document xml;
  const auto parsed = xml.load_buffer(body.data(), body.size());
  const pugi::xml_node list = xml.child("EnumerationResults");
  if (!parsed || !list)
    return fail(Errc::bad_upstream, "{} answered with no list of Azure: {}", server.display(),
                parsed ? "another document" : parsed.description());
  UpstreamPage out;
  for (const pugi::xml_node each : list.child("Blobs").children()) {
    UpstreamPage::Entry entry;
    entry.name = blob_name_in(each);
    if (std::string_view(each.name()) == "Blob") {
      const pugi::xml_node properties = each.child("Properties");
      // A directory of a hierarchical namespace is listed like a blob.
      if (std::string_view(properties.child_value("ResourceType")) == "directory") continue;
      if (entry.name < order.after)
        return fail(Errc::unsupported,
                    "{} lists '{}' after '{}': names are not sorted by their bytes, as in an "
                    "account with a hierarchical namespace, or the service is too old for version "
                    "{} of its API; such a container can be read, and not be listed",
                    server.display(), printable(entry.name), printable(order.after),
                    kServiceVersion);
      entry.size = parse_u64(properties.child_value("Content-Length")).value_or(0);
      entry.etag = quoted(properties.child_value("Etag"));
      entry.modified = http::parse_http_date(properties.child_value("Last-Modified"));
    }
    out.entries.push_back(std::move(entry));
  }
  tidy_page(out, order.after);
  out.marker = list.child_value("NextMarker");
  out.more = !out.marker.empty();
  return out;
}

http::ClientRequest AzureDialect::buckets_request(const UpstreamServer& account,
                                                  const std::string& marker,
                                                  std::int64_t now) const {
  Pairs query{{"comp", "list"}};
  if (!marker.empty()) query.emplace_back("marker", marker);
  return azure_request(account, http::Method::get, service_path(account), std::move(query), {}, 0,
                       now);
}

Result<UpstreamBuckets> AzureDialect::buckets_in(const UpstreamServer& account,
                                                 std::string_view body) const {
  pugi::xml_document xml;
  const auto parsed = xml.load_buffer(body.data(), body.size());
  const pugi::xml_node list = xml.child("EnumerationResults");
  if (!parsed || !list)
    return fail(Errc::bad_upstream, "{} answered with no list of containers: {}", account.display(),
                parsed ? "another document" : parsed.description());
  UpstreamBuckets out;
  for (const pugi::xml_node each : list.child("Containers").children("Container"))
    out.names.emplace_back(each.child_value("Name"));
  out.marker = list.child_value("NextMarker");
  return out;
}

Dialect::Said AzureDialect::said_in(const http::ClientResponse& answer) const {
  pugi::xml_document xml;
  static_cast<void>(xml.load_buffer(answer.body.data(), answer.body.size()));
  const pugi::xml_node error = xml.child("Error");
  // An answer to HEAD has no body.
  std::string code(answer.field("x-ms-error-code"));
  if (code.empty()) code = error.child_value("Code");
  return {std::move(code), error.child_value("Message")};
}

http::ClientRequest AzureDialect::change_request(const UpstreamServer& server,
                                                 std::string_view object, UpstreamChange change,
                                                 std::int64_t now) const {
  const std::uint64_t length = change.streamed_bytes.value_or(change.body.size());
  http::ClientRequest out =
      azure_request(server, change.method, upstream_path(server, object), std::move(change.query),
                    std::move(change.fields), length, now);
  out.body = std::move(change.body);
  return out;
}

bool AzureDialect::keeps_key(std::string_view key) const {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return is_letter(key.front()) && std::all_of(key.begin(), key.end(), [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9');
         });
}

UpstreamChange AzureDialect::put_whole(const http::Fields& fields, const std::string& md5) const {
  UpstreamChange out{http::Method::put, {}, blob_fields(fields)};
  out.fields.push_back({"x-ms-blob-type", "BlockBlob"});
  out.fields.push_back({"Content-MD5", md5});
  return out;
}

std::optional<UpstreamChange> AzureDialect::begin_upload(const http::Fields& /*fields*/) const {
  return std::nullopt;
}

Result<std::string> AzureDialect::upload_id_in(const UpstreamServer& server,
                                               std::string_view /*body*/) const {
  return fail(Errc::internal, "{}: uploads of Azure have no id of the server", server.display());
}

UpstreamChange AzureDialect::put_part(const std::string& id, std::uint64_t number,
                                      const std::string& md5) const {
  return {http::Method::put,
          {{"comp", "block"}, {"blockid", block_id(id, number)}},
          {{"Content-MD5", md5}}};
}

Result<std::string> AzureDialect::part_tag_in(const http::ClientResponse& /*answer*/,
                                              const std::string& id, std::uint64_t number) const {
  return block_id(id, number);
}

UpstreamChange AzureDialect::complete_upload(const std::string& /*id*/,
                                             const std::vector<std::string>& tags,
                                             const http::Fields& fields) const {
  UpstreamChange out{http::Method::put, {{"comp", "blocklist"}}, blob_fields(fields)};
  out.fields.push_back({"Content-Type", "application/xml"});
  out.body = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
  // Latest, and not Uncommitted: so that the request may come a second time.
  for (const std::string& tag : tags) out.body += "<Latest>" + tag + "</Latest>";
  out.body += "</BlockList>";
  return out;
}

Result<std::string> AzureDialect::completed_tag_in(const UpstreamServer& server,
                                                   const http::ClientResponse& answer) const {
  return tag_in_answer(server, answer, "a list of blocks");
}

Result<UpstreamChange> AzureDialect::set_metadata(const UpstreamServer& server,
                                                  std::string_view /*object*/,
                                                  const UpstreamObject& now,
                                                  const http::Fields& fields) const {
  UpstreamChange out{http::Method::put, {{"comp", "metadata"}}, {{"If-Match", now.etag}}};
  for (const http::Field& field : fields) {
    const bool is_metadata = field.name.starts_with("x-ms-");
    if (is_metadata) out.fields.push_back(field);
    const bool is_type = field.name == "Content-Type";
    std::string has = is_type ? now.content_type : now.content_encoding;
    if (is_type && has.empty()) has = http::kBytes;
    if (!is_metadata && field.value != has)
      return fail(Errc::unsupported,
                  "{} keeps the {} that an object was written with: write it again to change that",
                  server.display(), field.name);
  }
  return out;
}

Result<std::string> AzureDialect::changed_tag_in(const UpstreamServer& server,
                                                 const http::ClientResponse& answer) const {
  return tag_in_answer(server, answer, "a change of metadata");
}

std::optional<UpstreamChange> AzureDialect::abort_upload(const std::string& /*id*/) const {
  return std::nullopt;
}

std::string AzureDialect::md5_in(const http::ClientResponse& answer) const {
  return std::string(answer.field("Content-MD5"));
}

}  // namespace tarn::target
