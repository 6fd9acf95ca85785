// Requests to Google Cloud Storage and the meaning of its answers, where they differ from AWS's.

#include <map>

#include <catch2/catch.hpp>

#include "target/upstream/dialect.h"
#include "target/upstream/servers.h"

namespace upstream_google_test {

using namespace tarn;
using namespace tarn::target;

constexpr std::int64_t kGoogleNow = 1'795'651'200;
const api::Bucket kGoogleBucket{"gcp", "", "", "data"};

UpstreamServers google_servers(std::map<std::string, std::string> values) {
  const auto environment = [&](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
  return UpstreamServers::load("", environment).value();
}

UpstreamServer google() {
  return google_servers({{"GCS_ACCESS_KEY_ID", "GK"},
                         {"GCS_SECRET_ACCESS_KEY", "GS"},
                         {"AWS_ACCESS_KEY_ID", "AK"},
                         {"AWS_SECRET_ACCESS_KEY", "AS"}})
      .server_of(kGoogleBucket, {api::UpstreamKind::gcs, "", "", ""})
      .value();
}

http::ClientResponse answered(unsigned status, http::Fields fields) {
  http::ClientResponse out;
  out.status = status;
  out.fields = std::move(fields);
  return out;
}

std::string value_of(const http::Fields& fields, std::string_view name) {
  return std::string(http::find_field(fields, name));
}

TEST_CASE("google: its own host and keys are used, and those of AWS are not", "[upstream]") {
  const UpstreamServer server = google();
  CHECK(server.display() == "https://storage.googleapis.com:443/data");
  const auto request =
      dialect_of(server).object_request(server, http::Method::get, "a b", {}, kGoogleNow);
  CHECK(request.target == "/data/a%20b");
  const std::string authorization = value_of(request.fields, "Authorization");
  CHECK(authorization.starts_with("AWS4-HMAC-SHA256 Credential=GK/"));
  CHECK(authorization.find("/auto/s3/aws4_request") != std::string::npos);
  CHECK(value_of(request.fields, "Accept-Encoding") == "gzip");
  CHECK(value_of(request.fields, "x-amz-checksum-mode").empty());
  CHECK(dialect_of(server).bucket_request(server, kGoogleNow).target ==
        "/data?list-type=2&max-keys=1");

  const auto with_aws_keys =
      google_servers({{"AWS_ACCESS_KEY_ID", "AK"}, {"AWS_SECRET_ACCESS_KEY", "AS"}});
  CHECK_FALSE(with_aws_keys.is_configured(api::UpstreamKind::gcs));
  CHECK(with_aws_keys.is_configured(api::UpstreamKind::s3));
  const auto unsigned_one =
      with_aws_keys.server_of(kGoogleBucket, {api::UpstreamKind::gcs, "", "", ""}).value();
  CHECK_FALSE(unsigned_one.is_signed());
  const auto refused =
      dialect_of(unsigned_one).refusal_in(unsigned_one, "GET gs://data/x", answered(403, {}));
  CHECK(refused.error.message.find("without credentials") != std::string::npos);

  const auto elsewhere = with_aws_keys.server_of(
      kGoogleBucket,
      {api::UpstreamKind::gcs, "https://storage.googleapis.com.evil.example", "", ""});
  CHECK(elsewhere.error().code == Errc::forbidden);
  const auto named = google_servers({{"GCS_ENDPOINT_URL", "http://127.0.0.1:9000"}});
  CHECK(named.is_configured(api::UpstreamKind::gcs));
  CHECK(named.server_of(kGoogleBucket, {api::UpstreamKind::gcs, "", "", ""})->display() ==
        "http://127.0.0.1:9000/data");
}

TEST_CASE("google: x-goog-hash is the checksum of the whole object, in parts too", "[upstream]") {
  const UpstreamServer server = google();
  const auto checksums = [&](unsigned status, http::Fields fields) {
    return dialect_of(server).object_in(server, answered(status, std::move(fields)))->checksums;
  };
  const std::string tag = "\"900150983cd24fb0d6963f7d28e17f72\"";
  const auto both = checksums(200, {{"ETag", tag},
                                    {"x-goog-hash", "crc32c=NksttQ=="},
                                    {"x-goog-hash", "md5=kAFQmDzST7DWlj99KOF/cg=="}});
  CHECK(value_of(both, "Content-MD5") == "kAFQmDzST7DWlj99KOF/cg==");
  CHECK(value_of(both, "x-amz-checksum-crc32c") == "NksttQ==");
  const auto part = checksums(206, {{"ETag", "\"c\""},
                                    {"Content-Range", "bytes 0-1/3"},
                                    {"Content-Length", "2"},
                                    {"x-goog-hash", "crc32c=NksttQ==,md5=kA=="}});
  CHECK(value_of(part, "Content-MD5") == "kA==");
  CHECK(value_of(part, "x-amz-checksum-crc32c") == "NksttQ==");
  // Of a composite object the tag is no MD5, whatever it looks like.
  const auto composite = checksums(200, {{"ETag", tag}, {"x-goog-hash", "crc32c=NksttQ=="}});
  CHECK(composite.size() == 1);
  const WritableDialect& dialect = *writable_dialect_of(server).value();
  CHECK(dialect.md5_in(answered(200, {{"ETag", tag}, {"x-goog-hash", "crc32c=NksttQ=="}})).empty());
  CHECK(dialect.md5_in(answered(200, {{"ETag", tag}, {"x-goog-hash", "md5=kA=="}})) == "kA==");
  CHECK(dialect.md5_in(answered(200, {{"ETag", tag}})) == "kAFQmDzST7DWlj99KOF/cg==");
}

TEST_CASE("google: a change of metadata keeps the storage class, and adds no rules of caching",
          "[upstream]") {
  const UpstreamServer server = google();
  const auto fields_for = [&](const char* caching) {
    const auto now = dialect_of(server).object_in(
        server, answered(200, {{"ETag", "\"t\""},
                               {"Content-Length", "7"},
                               {"Cache-Control", caching},
                               {"Expires", "Sat, 28 Nov 2026 10:00:00 GMT"},
                               {"x-goog-storage-class", "NEARLINE"}}));
    return writable_dialect_of(server).value()->set_metadata(server, "a", *now, {}).value().fields;
  };
  const http::Fields fields = fields_for("private, max-age=0");
  CHECK(value_of(fields, "x-amz-storage-class") == "NEARLINE");
  CHECK(value_of(fields, "x-amz-copy-source-if-match") == "\"t\"");
  CHECK(value_of(fields, "Cache-Control").empty());
  CHECK(value_of(fields, "Expires").empty());
  CHECK(value_of(fields, "If-Match").empty());
  CHECK(value_of(fields_for("no-store"), "Cache-Control") == "no-store");
}

TEST_CASE("google: objects come as they are stored, or not at all", "[upstream]") {
  const UpstreamServer server = google();
  const auto read = [&](const char* stored, const char* sent) {
    http::Fields fields{{"ETag", "\"t\""}, {"x-goog-stored-content-encoding", stored}};
    if (*sent != '\0') fields.push_back({"Content-Encoding", sent});
    return dialect_of(server).object_in(server, answered(200, std::move(fields)));
  };
  CHECK(read("gzip", "gzip")->content_encoding == "gzip");
  CHECK(read("identity", "").has_value());
  CHECK(read("gzip", "").error().code == Errc::bad_upstream);
  CHECK(read("identity", "gzip").error().code == Errc::bad_upstream);
  CHECK(dialect_of(server).understands_part({{"Range", "bytes=-5"}}));
  CHECK_FALSE(dialect_of(server).understands_part({{"Range", "bytes=0-5"}, {"If-Range", "\"t\""}}));
}

}  // namespace upstream_google_test
