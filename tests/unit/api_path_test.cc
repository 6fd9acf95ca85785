#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/bucket.h"
#include "common/api/request_path.h"
#include "common/base/encoding.h"

namespace tarn::api {
namespace api_path_test {

Errc code_of(const Status& status) { return status ? Errc{} : status.error().code; }

Query query_of(std::string_view text) {
  const auto query = Query::parse(text);
  REQUIRE(query.has_value());
  return *query;
}

TEST_CASE("bucket names follow AIStore's rules", "[api][names]") {
  for (const auto& good : {std::string("a"), std::string("photos-2_b.c"), std::string(64, 'x')}) {
    INFO(good);
    CHECK(check_bucket_name(good).has_value());
  }
  for (const auto& bad :
       {std::string(), std::string(65, 'x'), std::string("a..b"), std::string(".sys"),
        std::string("."), std::string("a/b"), std::string("a b"), std::string("ä"),
        std::string("v1"), std::string("s3"), std::string("metrics"), std::string("a\0b", 3)}) {
    INFO(bad);
    CHECK(code_of(check_bucket_name(bad)) == Errc::invalid_argument);
  }
}

TEST_CASE("object names may be anything but a way out", "[api][names]") {
  for (const auto& good :
       {std::string("a"), std::string("a/b/c.tar"), std::string("-x"), std::string(".x"),
        std::string("..x/y.."), std::string("%%%"), std::string("你好世界"), std::string("a~/b"),
        std::string("track?name=lofi&v=1"), std::string("my audio file .m4a"),
        std::string(1024, 'x')}) {
    INFO(good);
    CHECK(check_object_name(good).has_value());
  }
  for (const auto& bad :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string(".."), std::string("a/../b"), std::string("a/./b"), std::string("a/.."),
        std::string("~/a"), std::string("a\0b", 3), std::string("\xC0\xAF"),
        std::string("\xED\xA0\x80"), std::string("\xFF"), std::string(1025, 'x')}) {
    INFO(bad);
    CHECK(code_of(check_object_name(bad)) == Errc::invalid_argument);
  }
}

TEST_CASE("a prefix may be empty and may end in a slash", "[api][names]") {
  CHECK(check_prefix("").has_value());
  CHECK(check_prefix("a/b/").has_value());
  CHECK_FALSE(check_prefix("../").has_value());
  CHECK_FALSE(check_prefix("~/").has_value());
}

TEST_CASE("a bucket has the names that placement and people know it by", "[api][names]") {
  Bucket bucket;
  bucket.name = "photos";
  CHECK(bucket.uname() == "ais/@#/photos/");
  CHECK(bucket.uname("a/b.jpg") == "ais/@#/photos/a/b.jpg");
  CHECK(bucket.display() == "ais://photos");
  bucket.provider = "aws";
  CHECK(bucket.display() == "s3://photos");
  bucket.provider = "ais";
  REQUIRE(parse_namespace("@uuid1#blue", bucket).has_value());
  CHECK(bucket.uname() == "ais/@uuid1#blue/photos/");
  CHECK(bucket.display() == "ais://@uuid1#blue/photos");
}

TEST_CASE("a bucket comes back from its JSON", "[api][names]") {
  Bucket bucket;
  bucket.name = "photos";
  bucket.ns_name = "blue";
  const nlohmann::json json = bucket;
  CHECK(json.get<Bucket>() == bucket);
  CHECK(nlohmann::json::parse(R"({"name":"b"})").get<Bucket>().provider == "ais");
  CHECK_THROWS(nlohmann::json::parse(R"({"provider":"ais"})").get<Bucket>());
}

TEST_CASE("providers have aliases, namespaces a form", "[api][names]") {
  CHECK(canonical_provider("").value() == "ais");
  CHECK(canonical_provider("S3").value() == "aws");
  CHECK(canonical_provider("gs").value() == "gcp");
  CHECK_FALSE(canonical_provider("ftp").has_value());
  Bucket bucket;
  for (const char* good : {"", "@#", "@#blue", "@uuid1#"}) {
    INFO(good);
    CHECK(parse_namespace(good, bucket).has_value());
  }
  for (const char* bad : {"blue", "#blue", "@blue", "@a/b#c", "@#a.b"}) {
    INFO(bad);
    CHECK(code_of(parse_namespace(bad, bucket)) == Errc::invalid_argument);
  }
}

TEST_CASE("a query is decoded once and comes back encoded", "[api][query]") {
  const Query query = query_of("provider=ais&a=1&b=x%2By&empty&c=d+e&&a=2&len=");
  CHECK(query.get("provider") == "ais");
  CHECK(query.get("a") == "1");
  CHECK(query.get("b") == "x+y");
  CHECK(query.get("c") == "d e");
  CHECK(query.find("empty") == std::string_view());
  CHECK(query.find("len") == std::string_view());
  CHECK_FALSE(query.find("none").has_value());
  const Query again = query_of(query.encode());
  CHECK(again.items() == query.items());
}

TEST_CASE("a value that is set again takes the place of the one before", "[api][query]") {
  Query query = query_of("hops=1&from_owner=&provider=ais");
  query.set("hops", "2");
  query.set("from_owner", "1");
  query.set("new", "x");
  CHECK(query.get("hops") == "2");
  CHECK(query.encode() == "hops=2&from_owner=1&provider=ais&new=x");
}

TEST_CASE("every byte of a query value survives", "[api][query]") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  Query query;
  query.set("k&=" + all, all);
  CHECK(query_of(query.encode()).items() == query.items());
  CHECK(query.encode().find('#') == std::string::npos);
}

TEST_CASE("malformed and endless queries are refused", "[api][query]") {
  for (const char* bad : {"a=%", "a=%4", "%zz=1", "a=%G1"}) {
    INFO(bad);
    CHECK_FALSE(Query::parse(bad).has_value());
  }
  std::string many;
  for (int i = 0; i < 64; ++i) many += "a=1&";
  CHECK(Query::parse(many).has_value());
  CHECK_FALSE(Query::parse(many + "a=1").has_value());
}

TEST_CASE("flags are AIStore's words for yes and no", "[api][query]") {
  const Query query = query_of("a=True&b=1&c=oN&d=False&e=&f=maybe");
  CHECK(query.flag("a").value());
  CHECK(query.flag("b").value());
  CHECK(query.flag("c").value());
  CHECK_FALSE(query.flag("d").value());
  CHECK_FALSE(query.flag("e").value());
  CHECK_FALSE(query.flag("absent").value());
  CHECK_FALSE(query.flag("f").has_value());
}

TEST_CASE("a request target is taken apart", "[api][path]") {
  const auto plain = parse_target("/a%2Fb?x=1");
  REQUIRE(plain.has_value());
  CHECK(plain->path == "/a%2Fb");
  CHECK(plain->query.get("x") == "1");
  const auto absolute = parse_target("HTTP://host:80/a?b=c");
  REQUIRE(absolute.has_value());
  CHECK(absolute->path == "/a");
  CHECK(parse_target("http://host")->path == "/");
  for (const char* bad : {"", "*", "a/b", "host:443", "/a?b=%"}) {
    INFO(bad);
    CHECK_FALSE(parse_target(bad).has_value());
  }
}

TEST_CASE("names survive the way through a path", "[api][path]") {
  for (const char* name : {"%", "%25", "%3D", "%%%", "你好世界", "track?name=lofi&v=1", "-x", ".x",
                           "my audio file .m4a", "a/b/c", "a+b", "#1", "a\"b\\c", "x;y=z"}) {
    const auto path = object_path("b", name);
    INFO(path);
    const auto target = parse_target(path);
    REQUIRE(target.has_value());
    constexpr std::string_view kBucketPath = "/v1/objects/b/";
    REQUIRE(target->path.starts_with(kBucketPath));
    CHECK(percent_decode(target->path.substr(kBucketPath.size())) == std::string(name));
  }
}

TEST_CASE("the query says which bucket is meant", "[api][path]") {
  const auto bucket = bucket_from("b", query_of("provider=s3&namespace=%40%23blue"));
  REQUIRE(bucket.has_value());
  CHECK(bucket->provider == "aws");
  CHECK(bucket->ns_name == "blue");
  CHECK_FALSE(bucket_from("b", query_of("provider=ftp")).has_value());
}

}  // namespace api_path_test
}  // namespace tarn::api
