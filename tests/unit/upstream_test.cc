// Requests to upstream servers and the meaning of their answers, without any server; and the
// sharing of a fill by its readers.

#include <future>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/upstream_props.h"
#include "target/upstream/dialect.h"
#include "target/upstream/fill.h"
#include "target/upstream/former_fill.h"
#include "target/upstream/part_reads.h"
#include "target/upstream/servers.h"
#include "target/upstream/write_mark.h"

namespace upstream_test {

using namespace tarn;
using namespace tarn::target;

constexpr std::int64_t kNow = 1'795'651'200;

security::Environment environment_of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

UpstreamServers servers_of(std::string_view listed,
                           std::map<std::string, std::string> values = {}) {
  values.emplace("AWS_ACCESS_KEY_ID", "AK");
  values.emplace("AWS_SECRET_ACCESS_KEY", "SK");
  return UpstreamServers::load(listed, environment_of(std::move(values))).value();
}

api::Bucket s3_bucket(std::string name = "data") { return {"aws", "", "", std::move(name)}; }
api::Bucket web_bucket() { return {"ht", "", "", "web"}; }

UpstreamServer s3_server() {
  return servers_of("http://127.0.0.1:9000")
      .server_of(s3_bucket(), {api::UpstreamKind::s3, "http://127.0.0.1:9000/", "", ""})
      .value();
}

UpstreamServer web_server() {
  return servers_of("http://files:8080")
      .server_of(web_bucket(), {api::UpstreamKind::web, "http://files:8080/a/", "", ""})
      .value();
}

http::ClientResponse answer(unsigned status, http::Fields fields, std::string body = "") {
  http::ClientResponse out;
  out.status = status;
  out.fields = std::move(fields);
  out.body = std::move(body);
  return out;
}

const http::Field* field_of(const http::Fields& fields, std::string_view name) {
  for (const auto& each : fields)
    if (each.name == name) return &each;
  return nullptr;
}

Result<UpstreamObject> described(const UpstreamServer& server,
                                 const http::ClientResponse& its_answer) {
  return dialect_of(server).object_in(server, its_answer);
}

api::BucketProps props_with(const char* text) {
  return api::with_changes({}, nlohmann::json::parse(text)).value();
}

/// Runs a coroutine to its end on a loop of its own.
template <class T>
T run(asio::io_context& loop, Task<T> task) {
  auto done = asio::co_spawn(loop, std::move(task), asio::use_future);
  loop.restart();
  loop.run();
  return done.get();
}

TEST_CASE("upstream: targets ask AWS and what the operator listed, and nothing else",
          "[upstream]") {
  const auto servers = servers_of("http://127.0.0.1:9000, https://Store.example.com");
  const auto of = [&](std::string url) {
    return servers.server_of(s3_bucket(), {api::UpstreamKind::s3, std::move(url), "", ""});
  };
  CHECK(of("http://127.0.0.1:9000")->display() == "http://127.0.0.1:9000/data");
  CHECK(of("https://store.example.com/")->display() == "https://store.example.com:443/data");
  CHECK(of("")->display() == "https://data.s3.us-east-1.amazonaws.com:443");
  CHECK(of("https://s3.eu-west-1.amazonaws.com").has_value());
  for (const char* url :
       {"http://127.0.0.1:9001", "http://169.254.169.254", "http://store.example.com",
        "http://s3.eu-west-1.amazonaws.com", "https://s3.amazonaws.com.evil.example",
        "https://s3.amazonaws.com:8443", "https://abc.execute-api.us-east-1.amazonaws.com"}) {
    INFO(url);
    REQUIRE_FALSE(of(url).has_value());
    CHECK(of(url).error().code == Errc::forbidden);
    CHECK(of(url).error().message.find("upstream.endpoints") != std::string::npos);
  }
  CHECK(UpstreamServers::load("ftp://x", environment_of({})).error().code ==
        Errc::invalid_argument);
}

TEST_CASE("upstream: the environment names the server, the region and the credentials",
          "[upstream]") {
  const auto servers =
      servers_of("", {{"AWS_ENDPOINT_URL", "http://10.0.0.1:9000"}, {"AWS_REGION", "eu-west-3"}});
  const auto server = servers.server_of(s3_bucket(), {});
  CHECK(server->display() == "http://10.0.0.1:9000/data");
  CHECK(server->region == "eu-west-3");
  CHECK(server->credentials->access_key == "AK");
  const auto dotted = servers_of("").server_of(s3_bucket("a.b"), {});
  CHECK(dotted->display() == "https://s3.us-east-1.amazonaws.com:443/a.b");
  for (const char* former : {"my_photos", "Photos"})
    CHECK(servers_of("").server_of(s3_bucket(former), {})->url.host ==
          "s3.us-east-1.amazonaws.com");
  const auto region_of = [](std::string url, std::string region) {
    return servers_of("", {{"AWS_DEFAULT_REGION", "eu-west-3"}})
        .server_of(s3_bucket(), {api::UpstreamKind::s3, std::move(url), std::move(region), ""})
        ->region;
  };
  CHECK(region_of("", "") == "eu-west-3");
  CHECK(region_of("https://s3.eu-central-1.amazonaws.com", "") == "eu-central-1");
  CHECK(region_of("https://s3.eu-central-1.amazonaws.com", "us-west-2") == "us-west-2");
  CHECK(region_of("https://s3.dualstack.eu-central-1.amazonaws.com", "") == "eu-central-1");
  CHECK(region_of("https://s3.amazonaws.com", "") == "eu-west-3");
  const auto chinese =
      servers_of("").server_of(s3_bucket(), {api::UpstreamKind::s3, "", "cn-north-1", ""});
  CHECK(chinese->url.host == "data.s3.cn-north-1.amazonaws.com.cn");
  const auto account = servers_of("", {{"AWS_ENDPOINT_URL", "https://s3.eu-west-1.amazonaws.com"}})
                           .account_of(api::UpstreamKind::s3);
  CHECK(account->region == "eu-west-1");
  const auto nobody = servers.server_of(s3_bucket(), {api::UpstreamKind::s3, "", "", "nobody"});
  CHECK(nobody.error().code == Errc::invalid_argument);
}

TEST_CASE("upstream: the field Host has no port that the scheme has anyway", "[upstream]") {
  const auto host = [](const char* url) { return http::parse_http_or_https(url)->host_field(); };
  CHECK(host("https://h/") == "h");
  CHECK(host("https://h:80/") == "h:80");
  CHECK(host("http://h:80/") == "h");
  CHECK(host("http://h:443/") == "h:443");
  CHECK(host("http://[::1]/") == "[::1]");
  CHECK(host("http://[::1]:9000/") == "[::1]:9000");
}

TEST_CASE("upstream: requests to S3 are signed, those to web servers carry no secret",
          "[upstream]") {
  const auto request = dialect_of(s3_server())
                           .object_request(s3_server(), http::Method::get, "a b/c+d.tar",
                                           {{"Range", "bytes=5-"}}, kNow);
  CHECK(request.target == "/data/a%20b/c%2Bd.tar");
  const auto* authorization = field_of(request.fields, "Authorization");
  REQUIRE(authorization != nullptr);
  CHECK(authorization->value.starts_with("AWS4-HMAC-SHA256 Credential=AK/"));
  CHECK(authorization->value.find("SK") == std::string::npos);
  CHECK(field_of(request.fields, "Range")->value == "bytes=5-");

  const auto plain =
      dialect_of(web_server()).object_request(web_server(), http::Method::get, "x.tar", {}, kNow);
  CHECK(plain.target == "/a/x.tar");
  CHECK(field_of(plain.fields, "Authorization") == nullptr);
  CHECK(field_of(plain.fields, "Accept-Encoding")->value == "identity");
}

TEST_CASE("upstream: changes are signed, small bodies with their hash", "[upstream]") {
  const UpstreamServer server = s3_server();
  const WritableDialect& dialect = *writable_dialect_of(server).value();
  UpstreamChange put = dialect.put_whole({}, "q");
  put.streamed_bytes = 7;
  const auto streamed = dialect.change_request(server, "a b/c", put, kNow);
  CHECK(streamed.target == "/data/a%20b/c");
  CHECK(field_of(streamed.fields, "x-amz-content-sha256")->value == security::kUnsignedPayload);
  CHECK(field_of(streamed.fields, "Content-MD5")->value == "q");
  CHECK(field_of(streamed.fields, "Authorization")->value.starts_with("AWS4-HMAC-SHA256 "));
  const auto small = dialect.change_request(
      server, "o", dialect.complete_upload("x/y", {"\"a\"", "\"b\""}, {}), kNow);
  CHECK(small.target == "/data/o?uploadId=x%2Fy");
  CHECK(small.body.find("<PartNumber>2</PartNumber><ETag>\"b\"</ETag>") != std::string::npos);
  CHECK(field_of(small.fields, "x-amz-content-sha256")->value == security::sha256_hex(small.body));
  CHECK(writable_dialect_of(web_server()).error().code == Errc::unsupported);
}

TEST_CASE("upstream: the end of an upload in parts may be an error with status 200", "[upstream]") {
  const UpstreamServer server = s3_server();
  const WritableDialect& dialect = *writable_dialect_of(server).value();
  const auto begun = [&](const char* body) { return dialect.upload_id_in(server, body); };
  CHECK(begun("<InitiateMultipartUploadResult><UploadId>u1</UploadId>"
              "</InitiateMultipartUploadResult>") == "u1");
  CHECK(begun("<html>").error().code == Errc::bad_upstream);
  const auto ended = [&](const char* body) {
    return dialect.completed_tag_in(server, answer(200, {}, body));
  };
  CHECK(
      ended(
          "<CompleteMultipartUploadResult><ETag>\"t-2\"</ETag></CompleteMultipartUploadResult>") ==
      "\"t-2\"");
  const auto refused =
      ended("<Error><Code>InvalidPart</Code><Message>no such part</Message></Error>");
  CHECK(refused.error().code == Errc::bad_upstream);
  CHECK(refused.error().message.find("InvalidPart") != std::string::npos);
  CHECK(ended("<Error><Code>InternalError</Code></Error>").error().code == Errc::unavailable);
  CHECK(ended("").error().code == Errc::unavailable);
}

TEST_CASE("upstream: a change of metadata is a copy that repeats the rest", "[upstream]") {
  const UpstreamServer server = s3_server();
  const WritableDialect& dialect = *writable_dialect_of(server).value();
  const auto now = described(server, answer(200, {{"ETag", "\"t\""},
                                                  {"Content-Length", "7"},
                                                  {"Cache-Control", "no-store"},
                                                  {"x-amz-storage-class", "STANDARD_IA"}}));
  const auto change =
      dialect.set_metadata(server, "a b/c+d", *now, {{"x-amz-meta-label", "cat"}}).value();
  const auto request = dialect.change_request(server, "a b/c+d", change, kNow);
  CHECK(request.method == http::Method::put);
  CHECK(field_of(request.fields, "x-amz-copy-source")->value == "/data/a%20b/c%2Bd");
  CHECK(field_of(request.fields, "x-amz-copy-source-if-match")->value == "\"t\"");
  CHECK(field_of(request.fields, "If-Match")->value == "\"t\"");
  CHECK(field_of(request.fields, "x-amz-metadata-directive")->value == "REPLACE");
  CHECK(field_of(request.fields, "x-amz-meta-label")->value == "cat");
  CHECK(field_of(request.fields, "Cache-Control")->value == "no-store");
  CHECK(field_of(request.fields, "x-amz-storage-class")->value == "STANDARD_IA");
  const auto ended = [&](const char* body) {
    return dialect.changed_tag_in(server, answer(200, {}, body));
  };
  CHECK(ended("<CopyObjectResult><ETag>\"u\"</ETag></CopyObjectResult>") == "\"u\"");
  CHECK(ended("<Error><Code>InternalError</Code></Error>").error().code == Errc::unavailable);
  CHECK(ended("<Error><Code>AccessDenied</Code></Error>").error().code == Errc::bad_upstream);
}

TEST_CASE("upstream: metadata that no answer of ours can have is noted", "[upstream]") {
  const UpstreamServer server = s3_server();
  const http::Fields plain{{"ETag", "\"t\""}, {"Content-Length", "7"}, {"x-amz-meta-a", "b"}};
  const auto with = [&](const char* name, std::string value) {
    http::Fields fields = plain;
    fields.push_back({name, std::move(value)});
    return described(server, answer(200, fields)).value();
  };
  CHECK_FALSE(described(server, answer(200, plain))->hides_metadata);
  CHECK_FALSE(with("x-amz-missing-meta", "0").hides_metadata);
  CHECK(with("x-amz-missing-meta", "2").hides_metadata);
  CHECK(with("x-amz-meta-long", std::string(3000, 'x')).hides_metadata);
  CHECK(with("x-amz-meta-long", std::string(3000, 'x')).custom == api::CustomMetadata{{"a", "b"}});
}

TEST_CASE("upstream: what a server cannot change in its place is refused", "[upstream]") {
  const UpstreamServer s3 = s3_server();
  UpstreamObject large;
  large.etag = "\"t-2\"";
  large.size = (std::uint64_t{5} << 30U) + 1;
  const auto refused = writable_dialect_of(s3).value()->set_metadata(s3, "a", large, {});
  CHECK(refused.error().code == Errc::unsupported);
  large.size = std::uint64_t{5} << 30U;
  CHECK(writable_dialect_of(s3).value()->set_metadata(s3, "a", large, {}).has_value());

  UpstreamServer azure;
  azure.kind = api::UpstreamKind::azure;
  const WritableDialect& dialect = *writable_dialect_of(azure).value();
  UpstreamObject blob;
  blob.etag = "\"0x1\"";
  blob.content_type = "text/plain";
  const http::Fields noted{{"x-ms-meta-label", "cat"}};
  const auto with = [&](const char* type) {
    http::Fields fields = noted;
    fields.push_back({"Content-Type", type});
    return dialect.set_metadata(azure, "a", blob, fields);
  };
  CHECK(with("application/json").error().code == Errc::unsupported);
  const http::ClientResponse leased =
      answer(412, {{"x-ms-error-code", "LeaseIdMissing"}}, "There is a lease on the blob");
  CHECK(dialect.refusal_in(azure, "PUT az://c/a", leased).error.code == Errc::forbidden);
  const auto change = with("text/plain").value();
  CHECK(field_of(change.fields, "x-ms-meta-label")->value == "cat");
  CHECK(field_of(change.fields, "If-Match")->value == "\"0x1\"");
  CHECK(field_of(change.fields, "Content-Type") == nullptr);
}

TEST_CASE("upstream: the mark of a write is open for a while, and survives the index",
          "[upstream]") {
  io::ObjectRecord record;
  record.kind = io::ObjectRecord::Kind::tombstone;
  record.modified_ns = kNow * 1'000'000'000;
  const auto after = [&](std::chrono::seconds time) {
    return record.modified_ns + std::chrono::nanoseconds(time).count();
  };
  CHECK_FALSE(is_open_mark(record, after(std::chrono::seconds(0))));
  record.custom = write_mark();
  const auto kept = io::decode_record(io::encode(record)).value();
  CHECK(is_open_mark(kept, after(std::chrono::seconds(0))));
  CHECK(is_open_mark(kept, after(kMarkOpen - std::chrono::seconds(1))));
  CHECK_FALSE(is_open_mark(kept, after(kMarkOpen)));
  record.kind = io::ObjectRecord::Kind::object;
  CHECK_FALSE(is_open_mark(record, after(std::chrono::seconds(0))));
}

TEST_CASE("upstream: pages are asked for behind a name, and behind a whole directory",
          "[upstream]") {
  const auto list_request = [](const UpstreamServer& server, const UpstreamListOrder& order) {
    return dialect_of(server).list_request(server, order, kNow);
  };
  const auto flat = list_request(s3_server(), {"p/", "p/x", 5000, false});
  CHECK(flat->target == "/data?list-type=2&max-keys=1000&prefix=p%2F&start-after=p%2Fx");
  const auto folded = list_request(s3_server(), {"", "dir/", 10, true});
  CHECK(folded->target ==
        "/data?delimiter=%2F&list-type=2&max-keys=10&start-after=dir%2F%F4%8F%BF%BF");
  CHECK(list_request(s3_server(), {"", "a", 10, false, "m=/"})->target ==
        "/data?continuation-token=m%3D%2F&list-type=2&max-keys=10&start-after=a");
  CHECK(list_request(web_server(), {}).error().code == Errc::unsupported);
}

TEST_CASE("upstream: an answer says size, version and checksums of an object", "[upstream]") {
  const std::string tag = "\"900150983cd24fb0d6963f7d28e17f72\"";
  const auto whole =
      described(s3_server(), answer(200, {{"ETag", tag},
                                          {"Content-Length", "3"},
                                          {"Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"},
                                          {"x-amz-checksum-crc32c", "NksttQ=="}}));
  CHECK(whole->size == 3);
  CHECK(whole->modified == 784'111'777);
  REQUIRE(whole->checksums.size() == 2);
  CHECK(whole->checksums[0].name == "Content-MD5");
  CHECK(whole->checksums[0].value == "kAFQmDzST7DWlj99KOF/cg==");

  const auto checksums = [](http::Fields fields) {
    return described(s3_server(), answer(200, std::move(fields)))->checksums.size();
  };
  CHECK(checksums({{"ETag", "\"900150983cd24fb0d6963f7d28e17f72-2\""}}) == 0);  // of parts
  CHECK(checksums({{"ETag", tag}, {"x-amz-server-side-encryption", "aws:kms"}}) == 0);
  CHECK(checksums({{"ETag", tag + ""}, {"x-amz-checksum-sha256", "q-2"}}) == 1);
  CHECK(checksums({{"ETag", "\"1-2\""},
                   {"x-amz-checksum-crc32", "q6k="},
                   {"x-amz-checksum-type", "COMPOSITE"}}) == 0);

  const auto part =
      described(s3_server(), answer(206, {{"ETag", tag}, {"Content-Range", "bytes 5-9/100"}}));
  CHECK(part->part_at == 5);
  CHECK(part->size == 100);
  REQUIRE(part->checksums.size() == 1);  // the entity tag is of the whole
  CHECK(part->checksums[0].value == whole->checksums[0].value);
  const auto others = described(s3_server(), answer(206, {{"ETag", "\"1-2\""},
                                                          {"Content-Range", "bytes 5-9/100"},
                                                          {"Content-MD5", "x"},
                                                          {"x-amz-checksum-crc32", "q6k="}}));
  CHECK(others->checksums.empty());
  for (const char* range : {"", "bytes */100", "bytes 5-9/*", "items 5-9/100", "bytes x-9/100"}) {
    INFO(range);
    const auto bad = described(s3_server(), answer(206, {{"ETag", tag}, {"Content-Range", range}}));
    CHECK(bad.error().code == Errc::bad_upstream);
  }
  CHECK(described(s3_server(), answer(200, {})).error().code == Errc::bad_upstream);
  CHECK(described(web_server(), answer(200, {})).has_value());
}

TEST_CASE("upstream: only strong tags tell that a version is the same", "[upstream]") {
  UpstreamObject one;
  one.size = 5;
  one.etag = "\"a\"";
  UpstreamObject other = one;
  CHECK(one.is_same_version(other));
  other.size = 6;
  CHECK_FALSE(one.is_same_version(other));
  other = one;
  other.etag = "\"b\"";
  CHECK_FALSE(one.is_same_version(other));
  one.etag = other.etag = "W/\"a\"";
  CHECK_FALSE(one.is_same_version(other));
  one.etag = other.etag = "";
  CHECK_FALSE(one.is_same_version(other));
}

TEST_CASE("upstream: a list of S3 becomes a page in order", "[upstream]") {
  const auto page = dialect_of(s3_server()).page_in(s3_server(), {}, R"(<?xml version="1.0"?>
    <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>true</IsTruncated>
    <Contents><Key>a&amp;b</Key><Size>7</Size><ETag>"t"</ETag>
      <LastModified>2026-11-26T10:11:12.000Z</LastModified></Contents>
    <Contents><Key>z</Key><Size>0</Size></Contents>
    <CommonPrefixes><Prefix>m/</Prefix></CommonPrefixes></ListBucketResult>)");
  REQUIRE(page->entries.size() == 3);
  CHECK(page->more);
  CHECK(page->entries[0].name == "a&b");
  CHECK(page->entries[0].size == 7);
  CHECK(page->entries[0].modified == 1'795'687'872);
  CHECK(page->entries[1].name == "m/");
  CHECK(page->entries[2].name == "z");
  for (const char* text : {"", "<a/>", "<ListBucketResult>", "not XML"}) {
    INFO(text);
    CHECK(dialect_of(s3_server()).page_in(s3_server(), {}, text).error().code ==
          Errc::bad_upstream);
  }
}

TEST_CASE("upstream: what a refusal means", "[upstream]") {
  const auto meaning = [](unsigned status, std::string body = "") {
    return dialect_of(s3_server())
        .refusal_in(s3_server(), "GET s3://data/x", answer(status, {}, std::move(body)));
  };
  const auto absent = meaning(404, "<Error><Code>NoSuchKey</Code><Message>m</Message></Error>");
  CHECK(absent.is_absent);
  CHECK(absent.names_object);
  CHECK(absent.error.code == Errc::object_not_found);
  CHECK(absent.error.message ==
        "GET s3://data/x: http://127.0.0.1:9000/data answered 404 NoSuchKey: m");
  CHECK_FALSE(meaning(404, "<Error><Code>NoSuchBucket</Code></Error>").names_object);
  CHECK(meaning(404, "<Error><Code>NoSuchBucket</Code></Error>").names_bucket);
  for (const unsigned status : {408U, 429U, 500U, 502U, 503U, 504U})
    CHECK(meaning(status).may_pass);
  for (const unsigned status : {301U, 400U, 403U, 404U, 501U})
    CHECK_FALSE(meaning(status).may_pass);
  CHECK(meaning(403).error.code == Errc::forbidden);
  CHECK(meaning(412).error.code == Errc::precondition_failed);
  CHECK(meaning(400, "<Error><Code>ExpiredToken</Code></Error>").error.code == Errc::unavailable);
  CHECK(meaning(301).error.code == Errc::bad_upstream);
  CHECK(meaning(301).error.message.find("redirects are not followed") != std::string::npos);
  const auto elsewhere = dialect_of(s3_server())
                             .refusal_in(s3_server(), "HEAD s3://data",
                                         answer(400, {{"x-amz-bucket-region", "eu-west-3"}}, ""));
  CHECK(elsewhere.error.message.ends_with(
      "the bucket is in the region eu-west-3: set its property extra.aws.cloud_region to that"));
  CHECK(elsewhere.region == "eu-west-3");
  constexpr const char* kMalformed =
      "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>";
  CHECK(meaning(400, kMalformed).region == "eu-west-1");
  CHECK(
      meaning(400, "<Error><Region>us-east-1</Region></Error>").region.empty());  // as it was asked
}

TEST_CASE("upstream: properties that cannot be are refused by name", "[upstream]") {
  const auto says = [](const api::Bucket& bucket, const char* props) {
    const Status checked = api::check_upstream(bucket, props_with(props));
    return checked ? std::string() : checked.error().message;
  };
  const char* const url = R"({"extra":{"http":{"url":"http://h/x"}}})";
  CHECK(says(web_bucket(), url).empty());
  CHECK(says(s3_bucket(), "{}").empty());
  const api::Bucket google{"gcp", "", "", "data"};
  CHECK(says(google, R"({"extra":{"gcp":{"endpoint":"https://h","profile":"p"}}})").empty());
  CHECK(says(google, R"({"extra":{"aws":{"profile":"p"}}})").find("extra.aws.profile") !=
        std::string::npos);
  CHECK(says(s3_bucket(), R"({"extra":{"gcp":{"endpoint":"h"}}})").find("extra.gcp.endpoint") !=
        std::string::npos);
  CHECK(api::server_props(api::UpstreamKind::gcs, "http://h").dump() ==
        R"({"extra":{"gcp":{"endpoint":"http://h"}}})");
  CHECK(says({}, "{}").empty());
  CHECK(says(web_bucket(), "{}").find("extra.http.url") != std::string::npos);
  CHECK(says(web_bucket(), R"({"extra":{"http":{"url":"http://u:p@h/"}}})").find("user name") !=
        std::string::npos);
  CHECK(says(s3_bucket(), url).find("extra.http.url") != std::string::npos);
  CHECK(says({}, R"({"extra":{"aws":{"profile":"p"}}})").find("extra.aws.profile") !=
        std::string::npos);
  CHECK(says(s3_bucket(), R"({"ec":{"enabled":true}})").empty());
  CHECK(says(s3_bucket(), R"({"mirror":{"enabled":true,"copies":2}})").empty());
  CHECK(says({}, R"({"versioning":{"synchronize":true}})").find("nothing upstream") !=
        std::string::npos);
  CHECK_FALSE(says({"oci", "", "", "b"}, "{}").empty());
  CHECK(api::check_other_upstream(web_bucket(), props_with(url), props_with(url)).has_value());
  CHECK_FALSE(api::check_other_upstream(web_bucket(), props_with(url),
                                        props_with(R"({"extra":{"http":{"url":"http://h/y"}}})"))
                  .has_value());
}

TEST_CASE("fill: the last window is held back until the whole is known to be right", "[upstream]") {
  Fill fill;
  UpstreamObject object;
  object.size = 10 * Fill::kHeldBack;
  fill.open(object, nullptr);
  fill.written(Fill::kHeldBack / 2);
  CHECK(fill.released() == Fill::kHeldBack / 2);
  fill.written(*object.size);
  CHECK(fill.released() == *object.size - Fill::kHeldBack);
  fill.release_all();
  CHECK(fill.released() == *object.size);

  Fill small;
  object.size = 5;
  small.open(object, nullptr);
  small.written(5);
  CHECK(small.released() == 0);
}

TEST_CASE("fill: readers wait for what they want, and hear of the end", "[upstream]") {
  asio::io_context loop;
  Fill fill;
  std::vector<std::string> heard;
  const auto reader = [&](std::uint64_t at) -> Task<void> {
    const auto opened = co_await fill.opened();
    const auto upto =
        opened ? co_await fill.wait_beyond(at) : Result<std::uint64_t>(fail(opened.error()));
    heard.push_back(upto ? std::to_string(*upto) : upto.error().message);
  };
  auto first = asio::co_spawn(loop, reader(0), asio::use_future);
  auto second = asio::co_spawn(loop, reader(200'000), asio::use_future);
  loop.poll();
  CHECK(heard.empty());
  UpstreamObject object;
  object.size = 300'000;
  fill.open(object, nullptr);
  fill.written(100'000);
  loop.poll();
  CHECK(heard == std::vector<std::string>{"100000"});
  const auto broken = fail(Errc::bad_upstream, "broken");
  fill.end(broken, broken);
  fill.end({}, 7);  // the first end counts
  loop.restart();
  loop.run();
  first.get();
  second.get();
  CHECK(heard == std::vector<std::string>{"100000", "broken"});
  CHECK(run(loop, fill.ended()).error().message == "broken");
}

TEST_CASE("fill: one a name", "[upstream]") {
  FillBoard board;
  const auto first = board.join("1/a");
  CHECK(first.is_new);
  CHECK_FALSE(board.join("1/a").is_new);
  CHECK(board.join("1/a").fill == first.fill);
  CHECK(board.join("1/b").is_new);
  CHECK(board.running() == 2);
  board.end("1/a", *first.fill);
  CHECK(board.find("1/a") == nullptr);
  const auto second = board.join("1/a");
  CHECK(second.fill != first.fill);
  board.end("1/a", *first.fill);  // an older one, which was parted with
  CHECK(board.find("1/a") == second.fill);
  board.part_with("1/a");
  CHECK(board.find("1/a") == nullptr);
}

TEST_CASE("a fill of a former owner says the object as upstream did") {
  UpstreamObject object;
  object.size = 7;
  object.etag = "\"a-1\"";
  object.content_type = "text/plain; charset=\"\xc3\xbc\"";
  object.custom = {{"key", "value"}, {"other", ""}};
  object.checksums = {{"Content-MD5", "abc=="}};
  const std::string text = to_text(object);
  CHECK(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  const auto back = upstream_object_in(text);
  REQUIRE(back);
  CHECK(back->size == 7U);
  CHECK(back->etag == object.etag);
  CHECK_FALSE(back->modified);
  CHECK(back->content_type == object.content_type);
  CHECK(back->custom == object.custom);
  REQUIRE(back->checksums.size() == 1);
  CHECK(back->checksums[0].value == "abc==");
  object.modified = 1'700'000'000;
  CHECK(upstream_object_in(to_text(object))->modified == 1'700'000'000);
  CHECK(upstream_object_in("").error().code == Errc::corrupt);
  CHECK(upstream_object_in("{\"size\":\"7\"}").error().code == Errc::corrupt);
}

TEST_CASE("parts of cold objects tell a reader of the whole") {
  using namespace std::chrono_literals;
  PartReads parts;
  const std::chrono::steady_clock::time_point now{};
  CHECK_FALSE(parts.note("1/p", {0, 100}, now).is_again);
  const auto second = parts.note("1/p", {100, 100}, now + 59s);
  CHECK(second.is_again);
  CHECK(second.follows);
  CHECK_FALSE(second.size);
  parts.note_size("1/p", 5000);
  const auto elsewhere = parts.note("1/p", {700, 100}, now + 60s);
  CHECK(elsewhere.is_again);
  CHECK_FALSE(elsewhere.follows);
  CHECK(elsewhere.size == 5000);
  // Several connections ask for parts in any order.
  CHECK_FALSE(parts.note("1/p", {200, 100}, now + 60s).follows);
  CHECK(parts.note("1/p", {800, 100}, now + 60s).follows);
  const auto later = parts.note("1/p", {900, 100}, now + 120s);
  CHECK_FALSE(later.is_again);
  CHECK_FALSE(later.follows);
  CHECK_FALSE(later.size);
  CHECK_FALSE(parts.note("1/q", {0, 1}, now + 120s).is_again);
  // The end of an object whose size is not known, and then its parts.
  static_cast<void>(parts.note("1/r", {PartReads::kSizeUnknown - 7, 7}, now));
  CHECK_FALSE(parts.note("1/r", {0, 100}, now).follows);
  static_cast<void>(parts.note("1/r", {200, 100}, now));
  static_cast<void>(parts.note("1/r", {100, 100}, now));
  CHECK(parts.note("1/r", {300, 100}, now).follows);
}

}  // namespace upstream_test
