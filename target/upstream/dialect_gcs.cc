#include "common/base/encoding.h"
#include "target/upstream/dialect_s3.h"

namespace tarn::target {
namespace {

constexpr std::string_view kStoredEncoding = "x-goog-stored-content-encoding";
constexpr std::string_view kHashField = "x-goog-hash";

/// A checksum of the stored object, in base64: x-goog-hash is "crc32c=n03x6A==", one a field or
/// several with commas between them.
std::string hash_in(const http::ClientResponse& answer, std::string_view type) {
  for (const http::Field& field : answer.fields) {
    if (!iequals(field.name, kHashField)) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const auto comma = rest.find(',');
      const auto item = trim(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      if (item.size() > type.size() && item.starts_with(type) && item[type.size()] == '=')
        return std::string(item.substr(type.size() + 1));
    }
  }
  return "";
}

bool is_identity(std::string_view encoding) {
  return encoding.empty() || iequals(encoding, "identity");
}

}  // namespace

http::ClientRequest GcsDialect::object_request(const UpstreamServer& server, http::Method method,
                                               std::string_view object, http::Fields more,
                                               std::int64_t now) const {
  // Objects that are stored with gzip come as they are; all other ones are not packed for it.
  more.push_back({"Accept-Encoding", "gzip"});
  return s3_request(server, method, upstream_path(server, object), {}, std::move(more), now);
}

bool GcsDialect::understands_part(const http::Fields& fields) const {
  return http::find_field(fields, "If-Range").empty();
}

http::ClientRequest GcsDialect::bucket_request(const UpstreamServer& server,
                                               std::int64_t now) const {
  return s3_request(server, http::Method::get, server.url.path,
                    {{"list-type", "2"}, {"max-keys", "1"}}, {}, now);
}

http::ClientRequest GcsDialect::buckets_request(const UpstreamServer& account,
                                                const std::string& /*marker*/,
                                                std::int64_t now) const {
  return s3_request(account, http::Method::get, service_path(account), {}, {}, now);
}

Result<UpstreamObject> GcsDialect::object_in(const UpstreamServer& server,
                                             const http::ClientResponse& answer) const {
  const auto stored = answer.field(kStoredEncoding);
  const auto sent = answer.field("Content-Encoding");
  const bool is_as_stored = is_identity(stored) == is_identity(sent);
  if (!stored.empty() && !is_as_stored)
    return fail(Errc::bad_upstream,
                "{} sent an object with the encoding '{}' that is stored with '{}': its bytes are "
                "not those that are stored",
                server.display(), printable(sent), printable(stored));
  TRY(UpstreamObject out, S3Dialect::object_in(server, answer));
  if (const auto value = answer.field("x-goog-storage-class"); !value.empty())
    out.further.push_back({"x-amz-storage-class", std::string(value)});
  return out;
}

Result<UpstreamChange> GcsDialect::set_metadata(const UpstreamServer& server,
                                                std::string_view object, const UpstreamObject& now,
                                                const http::Fields& fields) const {
  TRY(UpstreamChange out, S3Dialect::set_metadata(server, object, now, fields));
  std::erase_if(out.fields, [](const http::Field& field) {
    const bool is_added =
        field.name == "Expires" ||
        (field.name == "Cache-Control" &&
         (field.value == "private, max-age=0" || field.value == "public, max-age=3600"));
    return is_added || field.name == "If-Match";  // the server has it for reads
  });
  return out;
}

std::string GcsDialect::md5_in(const http::ClientResponse& answer) const {
  if (answer.field(kHashField).empty()) return S3Dialect::md5_in(answer);
  return hash_in(answer, "md5");
}

/// x-goog-hash is of the whole object also where a part of it is sent.
http::Fields GcsDialect::checksums_in(const http::ClientResponse& answer, bool is_part) const {
  http::Fields out;
  if (std::string md5 = hash_in(answer, "md5"); !md5.empty())
    out.push_back({"Content-MD5", std::move(md5)});
  if (std::string crc = hash_in(answer, "crc32c"); !crc.empty())
    out.push_back({"x-amz-checksum-crc32c", std::move(crc)});
  return out.empty() ? S3Dialect::checksums_in(answer, is_part) : out;
}

}  // namespace tarn::target
