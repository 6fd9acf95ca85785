#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/custom_metadata.h"
#include "common/api/object_query.h"
#include "target/node/open_appends.h"
#include "target/request/head_request.h"

namespace tarn {
namespace object_request_test {

using api::CustomMetadata;

template <class T>
Errc code_of(const T& result) {
  return result ? Errc::internal : result.error().code;
}

api::Query query_of(std::string_view text) {
  const auto query = api::Query::parse(text);
  REQUIRE(query.has_value());
  return *query;
}

TEST_CASE("custom metadata: a line a pair, or several joined in one line", "[api][custom]") {
  const auto lines = api::custom_from_lines({"color=red", "note=a=b"});
  REQUIRE(lines.has_value());
  CHECK(*lines == CustomMetadata{{"color", "red"}, {"note", "a=b"}});
  const auto joined = api::custom_from_lines({"color=red, size=9,  shape=round, and flat"});
  REQUIRE(joined.has_value());
  CHECK(*joined == CustomMetadata{{"color", "red"}, {"size", "9"}, {"shape", "round, and flat"}});
  CHECK(api::custom_from_lines({})->empty());
  CHECK(*api::custom_from_lines({"a=1", "a=2"}) == CustomMetadata{{"a", "2"}});
  CHECK(*api::custom_from_lines({"a="}) == CustomMetadata{{"a", ""}});
  CHECK(code_of(api::custom_from_lines({"no pair"})) == Errc::invalid_argument);
  CHECK(code_of(api::custom_from_lines({"=value"})) == Errc::invalid_argument);
  CHECK(code_of(api::custom_from_lines({"ais-checksum-type=md5"})) == Errc::invalid_argument);
}

TEST_CASE("custom metadata: what a header cannot carry is refused", "[api][custom]") {
  CHECK(api::custom_from_json({{"a", "1"}, {"b", "ü"}}).has_value());
  CHECK(api::custom_from_json(nlohmann::json::object())->empty());
  for (const auto& bad : {nlohmann::json(nullptr), nlohmann::json::array({"a"}),
                          nlohmann::json{{"a", 1}}, nlohmann::json{{"", "x"}},
                          nlohmann::json{{"a=b", "x"}}, nlohmann::json{{"a", "line\nbreak"}},
                          nlohmann::json{{"a", " x"}}, nlohmann::json{{"a ", "x"}}}) {
    INFO(bad.dump());
    CHECK(code_of(api::custom_from_json(bad)) == Errc::invalid_argument);
  }
}

TEST_CASE("custom metadata: at most 2 KiB, all counted", "[api][custom]") {
  const auto of_bytes = [](std::size_t bytes) {
    return CustomMetadata{{"k", std::string(bytes - 3, 'v')}};
  };
  CHECK(api::custom_metadata_bytes(of_bytes(2048)) == 2048);
  CHECK(api::check_custom_metadata(of_bytes(2048)).has_value());
  CHECK(code_of(api::check_custom_metadata(of_bytes(2049))) == Errc::invalid_argument);
  CustomMetadata many;
  for (int i = 0; i < 400; ++i) many.emplace_back(std::to_string(i), "abc");
  CHECK(code_of(api::check_custom_metadata(many)) == Errc::invalid_argument);
}

TEST_CASE("custom metadata: changes go over what is there", "[api][custom]") {
  CHECK(api::merged({{"a", "1"}, {"b", "2"}}, {{"c", "3"}, {"a", "4"}}) ==
        CustomMetadata{{"a", "4"}, {"b", "2"}, {"c", "3"}});
}

TEST_CASE("object queries: later features are refused, empty words say nothing", "[api][query]") {
  for (const auto* fine : {"", "archpath=", "archpath=&archregx=&archmode=", "latest-ver=True",
                           "skip_vc=false", "etl_name=", "whatever=1"}) {
    INFO(fine);
    CHECK(api::check_object_query(query_of(fine)).has_value());
  }
  for (const auto* later : {"archpath=a.jpg", "archregx=x&archmode=suffix", "etl_name=x",
                            "etl_pipeline=a,b", "uploads", "uploadId=7", "partNumber=1"}) {
    INFO(later);
    CHECK(code_of(api::check_object_query(query_of(later))) == Errc::unsupported);
  }
  CHECK(code_of(api::check_object_query(query_of("skip_vc=maybe"))) == Errc::invalid_argument);
}

TEST_CASE("unames are taken apart", "[api][query]") {
  const auto plain = api::parse_uname("ais/@#/photos/dir/cat.jpg");
  REQUIRE(plain.has_value());
  CHECK(plain->bucket.display() == "ais://photos");
  CHECK(plain->object == "dir/cat.jpg");
  const auto space = api::parse_uname("s3/@u1#blue/photos/x");
  REQUIRE(space.has_value());
  CHECK(space->bucket == api::Bucket{"aws", "u1", "blue", "photos"});
  CHECK(plain->bucket.uname(plain->object) == "ais/@#/photos/dir/cat.jpg");
  for (const auto* bad :
       {"", "photos/x", "ais/photos/x", "ais/@#/photos/", "ais/@#/photos", "ais/@/photos/x",
        "ais/@#/ph otos/x", "ais/@#/photos/../x", "xx/@#/b/o"}) {
    INFO(bad);
    CHECK(code_of(api::parse_uname(bad)) == Errc::invalid_argument);
  }
}

TEST_CASE("HEAD: all, or what props= names", "[target][head]") {
  using target::HeadRequest;
  const auto all = target::parse_head_request(query_of("provider=ais"));
  REQUIRE(all.has_value());
  CHECK_FALSE(all->selective);
  const auto some = target::parse_head_request(query_of("props=checksum,%20etag&presence=3"));
  REQUIRE(some.has_value());
  CHECK(some->selective);
  CHECK(some->status_only);
  CHECK(some->properties == (HeadRequest::checksum | HeadRequest::etag));
  CHECK(target::parse_head_request(query_of("props="))->properties ==
        (HeadRequest::name | HeadRequest::size));
  CHECK(target::parse_head_request(query_of("presence=5"))->outside_only);
  for (const auto* bad : {"props=cached", "props=status", "props=name,,size", "presence=6",
                          "presence=-1", "presence=x"}) {
    INFO(bad);
    CHECK(code_of(target::parse_head_request(query_of(bad))) == Errc::invalid_argument);
  }
}

TEST_CASE("append handles: read back as written, anything else refused", "[target][append]") {
  const auto handle = target::AppendHandle::parse("tAbC-1_x.00c0ffee00c0ffee.12");
  REQUIRE(handle.has_value());
  CHECK(handle->target == "tAbC-1_x");
  CHECK(handle->id == "00c0ffee00c0ffee");
  CHECK(handle->size == 12);
  CHECK(handle->text() == "tAbC-1_x.00c0ffee00c0ffee.12");
  for (const auto* bad : {"x", "a.b", "a.b.", "a.b.-1", "t1|/mp/x|xxhash2|AAAA"}) {
    INFO(bad);
    CHECK(code_of(target::AppendHandle::parse(bad)) == Errc::invalid_argument);
  }
}

TEST_CASE("digests: going back forgets what came after the mark", "[target][append]") {
  const std::string first(target::kBlockBytes + 10, 'a');
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  target::Digests wanted;
  wanted.update(bytes(first));
  wanted.update(bytes("end"));
  target::Digests digests;
  digests.update(bytes(first));
  const auto mark = digests.mark();
  digests.update(bytes(std::string(3 * target::kBlockBytes, 'b')));
  digests.back_to(mark);
  digests.update(bytes("end"));
  CHECK(digests.xxh64() == wanted.xxh64());
  CHECK(digests.blocks() == wanted.blocks());
  CHECK(digests.size() == wanted.size());
}

}  // namespace object_request_test
}  // namespace tarn
