// Decisions of a proxy that ask no other node: which target to send a client to, which bodies it
// may redirect. Also what it reads out of JSON bodies, and what its pages look like.

#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/cluster/place/hrw.h"
#include "proxy/core/action.h"
#include "proxy/core/options.h"
#include "proxy/list/list_request.h"
#include "proxy/object/assign.h"
#include "proxy/pages.h"

namespace proxy_decisions_test {

using namespace tarn;
using namespace tarn::proxy;
using nlohmann::json;

cluster::ClusterState three_targets() {
  cluster::ClusterState state;
  for (const char* id : {"tAAAAAAAA", "tBBBBBBBB", "tCCCCCCCC"}) {
    cluster::Node node;
    node.id = id;
    node.digest = cluster::placement_digest(id);
    state.map.nodes.emplace(id, node);
    state.live.insert(id);
  }
  return state;
}

http::RequestHead head(http::Method method) {
  http::RequestHead out;
  out.method = method;
  return out;
}

ListRequest list_request(const json& value) {
  auto parsed = parse_list_request(value);
  INFO((parsed ? "" : parsed.error().message));
  REQUIRE(parsed);
  return *parsed;
}

Errc list_problem(const json& value) {
  const auto parsed = parse_list_request(value);
  REQUIRE_FALSE(parsed);
  return parsed.error().code;
}

api::Bucket named(const char* name) {
  api::Bucket out;
  out.name = name;
  return out;
}
/// A bucket that is placed as "old" and called "data".
const cluster::BucketRecord kRenamed{BucketId{7}, named("data"), {}, 0, named("old"), {}};

std::string owner_of_x(const cluster::ClusterState& state) {
  return cluster::owner_of(state.map, "ais/@#/old/x")->id;
}

TEST_CASE("a client is sent to the owner by HRW when it answers", "[proxy]") {
  const auto state = three_targets();
  const auto owner = owner_for(state, Answering{}, kRenamed, "x", Access::write);
  REQUIRE(owner);
  CHECK((*owner)->id == owner_of_x(state));
}

TEST_CASE("nobody is sent to another target when the owner does not answer", "[proxy]") {
  const auto state = three_targets();
  const Answering answering{{owner_of_x(state)}};
  for (const auto access : {Access::read, Access::write}) {
    const auto owner = owner_for(state, answering, kRenamed, "x", access);
    REQUIRE_FALSE(owner);
    CHECK(owner.error().code == Errc::unavailable);
    CHECK_THAT(owner.error().message, Catch::Contains("owns ais://data/x, does not answer"));
  }
}

TEST_CASE("without a lease a target gets reads, no writes", "[proxy]") {
  auto state = three_targets();
  state.live.clear();
  const Answering answering{};
  CHECK(owner_for(state, answering, kRenamed, "x", Access::read));
  const auto owner = owner_for(state, answering, kRenamed, "x", Access::write);
  REQUIRE_FALSE(owner);
  CHECK(owner.error().code == Errc::unavailable);
  CHECK_THAT(owner.error().message, Catch::Contains("owns ais://data/x, has no lease"));
}

TEST_CASE("without targets everything is unavailable, not missing", "[proxy]") {
  CHECK(owner_for({}, {}, kRenamed, "x", Access::read).error().code == Errc::unavailable);
}

TEST_CASE("a PUT without length and chunks is refused", "[proxy]") {
  const auto put = head(http::Method::put);
  CHECK(check_body_framing(put).error().code == Errc::length_required);
  auto empty = put;
  empty.content_length = 0;
  CHECK(check_body_framing(empty));
  CHECK(check_body_framing(head(http::Method::get)));
  CHECK(check_body_framing(head(http::Method::del)));
}

TEST_CASE("chunks without Expect are relayed, never redirected", "[proxy]") {
  for (const auto method : {http::Method::put, http::Method::post, http::Method::patch}) {
    auto chunked = head(method);
    CHECK(is_safe_to_redirect(chunked));
    chunked.chunked = true;
    CHECK_FALSE(is_safe_to_redirect(chunked));
    CHECK(check_body_framing(chunked));
    chunked.expects_continue = true;
    CHECK(is_safe_to_redirect(chunked));
  }
}

TEST_CASE("a missing bucket is named as AIStore's clients parse it", "[proxy]") {
  const Error error = bucket_not_found(plain_bucket("photos"));
  CHECK(error.code == Errc::bucket_not_found);
  CHECK_THAT(error.message, Catch::StartsWith("bucket \"ais://photos\" does not exist"));
  CHECK_THAT(error.message, Catch::EndsWith("or with: tarn ls"));
  const Error to_make = bucket_to_make(plain_bucket("photos"));
  CHECK(to_make.code == Errc::bucket_not_found);
  CHECK_THAT(to_make.message, Catch::StartsWith("bucket \"ais://photos\" does not exist"));
  CHECK_THAT(to_make.message, Catch::Contains("create-bck"));
  CHECK_THAT(to_make.message, Catch::EndsWith("tarn bucket create photos"));
}

TEST_CASE("an action is read with keys in any case", "[proxy]") {
  const auto action = parse_action(R"({"Action":"list","NAME":"","Value":{"a":1},"other":2})");
  REQUIRE(action);
  CHECK(action->action == "list");
  CHECK(action->value == json{{"a", 1}});
  CHECK(parse_action("")->action.empty());
  CHECK(parse_action(R"({"action":null})")->value.is_null());
  for (const char* bad : {"[]", "list", "{", R"({"action":1})", "7"})
    CHECK(parse_action(bad).error().code == Errc::invalid_argument);
}

TEST_CASE("a list request without a message asks for names and sizes", "[proxy][list]") {
  const ListRequest wanted = list_request(nullptr);
  CHECK(wanted.limit == 10'000);
  CHECK(wanted.recursive);
  CHECK(wanted.fields == api::ListFields{.size = true});
  CHECK(list_request(json::object()).fields == wanted.fields);
}

TEST_CASE("a list request takes what AIStore's clients send", "[proxy][list]") {
  const ListRequest wanted = list_request({{"uuid", "abc"},
                                           {"props", "name,size, checksum,version,atime,location"},
                                           {"prefix", "dir/*"},
                                           {"start_after", "dir/b"},
                                           {"continuation_token", "dir/a"},
                                           {"flags", "2048"},
                                           {"pagesize", 7},
                                           {"time_format", "2006-01-02T15:04:05Z07:00"},
                                           {"target", ""}});
  CHECK(wanted.uuid == "abc");
  CHECK(wanted.prefix == "dir/");
  CHECK(wanted.after == "dir/b");
  CHECK(wanted.limit == 7);
  CHECK_FALSE(wanted.recursive);
  CHECK(wanted.time_format == api::TimeFormat::rfc3339);
  CHECK(wanted.fields ==
        api::ListFields{
            .size = true, .checksum = true, .version = true, .atime = true, .location = true});
}

TEST_CASE("flags of a list choose its fields", "[proxy][list]") {
  CHECK(list_request({{"flags", "16"}}).fields == api::ListFields{.size = false});
  CHECK(list_request({{"flags", "32"}, {"props", "checksum"}}).fields ==
        api::ListFields{.size = true});
  CHECK(list_request({{"flags", 1}}).fields ==
        api::ListFields{.size = true, .checksum = true, .atime = true});
  CHECK(list_request({{"flags", "8192"}}).recursive);
  CHECK(list_request({{"props", "name"}}).fields == api::ListFields{.size = false});
}

TEST_CASE("a page is never longer than 10,000 names", "[proxy][list]") {
  CHECK(list_request({{"pagesize", 0}}).limit == 10'000);
  CHECK(list_request({{"pagesize", 10'001}}).limit == 10'000);
  CHECK(list_request({{"pagesize", "12"}}).limit == 12);
}

TEST_CASE("what a list cannot answer is refused", "[proxy][list]") {
  CHECK(list_problem({{"flags", "8"}}) == Errc::unsupported);         // archives
  CHECK(list_problem({{"flags", "4096"}}) == Errc::unsupported);      // diff with upstream
  CHECK(list_problem({{"flags", "513"}}) == Errc::invalid_argument);  // cached, and not cached
  CHECK(list_problem({{"flags", "65536"}}) == Errc::invalid_argument);
  CHECK(list_problem({{"flags", "-1"}}) == Errc::invalid_argument);
  CHECK(list_problem({{"props", "name,colour"}}) == Errc::invalid_argument);
  CHECK(list_problem({{"prefix", "../x"}}) == Errc::invalid_argument);
  CHECK(list_problem({{"prefix", 5}}) == Errc::invalid_argument);
  CHECK(list_problem({{"pagesize", -5}}) == Errc::invalid_argument);
  CHECK(list_problem({{"time_format", "YYYY"}}) == Errc::invalid_argument);
  CHECK(list_problem("list") == Errc::invalid_argument);
}

api::MergedPage page_of(std::string_view name, std::uint64_t size, bool more) {
  api::ListEntry entry;
  entry.name = name;
  entry.size = size;
  api::PagePacker packer;
  packer.add(entry);
  api::PackedPage packed = packer.take(more);
  api::MergedPage out;
  out.entries = std::move(packed.entries);
  out.more = more;
  out.kept.push_back(std::move(packed.bytes));
  return out;
}

TEST_CASE("a page escapes names in text and in links", "[proxy][pages]") {
  const api::MergedPage listed = page_of("d/<script>\"&'x y:?#%.tar", 12, false);
  const std::string page = render_opening("data", "d/", listed) + render_closing(listed);
  CHECK_THAT(page,
             Catch::Contains("<a href=\"%3Cscript%3E%22%26%27x%20y%3A%3F%23%25.tar\" "
                             "data-href=\"/data/d/%3Cscript%3E%22%26%27x%20y%3A%3F%23%25.tar\">"
                             "&lt;script&gt;&quot;&amp;&#39;x y:?#%.tar</a>"));
  CHECK_THAT(page, !Catch::Contains("<script>"));
  CHECK_THAT(page, Catch::Contains("<a href=\"../\" data-href=\"/data/\">../</a>"));
  CHECK_THAT(page, Catch::Contains(">12</td>"));
}

TEST_CASE("the next page is no link, and none leads above a bucket", "[proxy][pages]") {
  const api::MergedPage listed = page_of("a&b/", 0, true);
  const std::string page = render_opening("data", "", listed) + render_closing(listed);
  CHECK_THAT(page, Catch::Contains("<form><input type=\"hidden\" name=\"after\" "
                                   "value=\"a&amp;b/\"><button>next page</button></form>"));
  CHECK_THAT(page, Catch::Contains("<a href=\"a%26b/\" data-href=\"/data/a%26b/\">a&amp;b/</a>"));
  CHECK_THAT(page, !Catch::Contains("../"));
  CHECK_THAT(render_opening("data", "a/b/", {}), Catch::Contains("data-href=\"/data/a/\""));
  CHECK_THAT(render_opening("data", "", {}), Catch::Contains("Nothing here"));
}

TEST_CASE("settings of a proxy are checked", "[proxy][settings]") {
  Options options;
  Settings settings;
  options.bind(settings);
  const std::vector<std::string> good{"redirect_put_status=302", "default_bucket=shards",
                                      "http.idle_timeout=5s", "log.level=debug"};
  REQUIRE(settings.apply(good));
  CHECK(options.redirect_put_status == 302);
  CHECK(options.default_bucket == "shards");
  CHECK(options.service.limits.idle_timeout == std::chrono::seconds(5));
  const std::vector<std::string> bad{"redirect_put_status=301", "default_bucket=v1"};
  CHECK_THAT(settings.apply(bad).error().message,
             Catch::Contains("redirect_put_status: ") && Catch::Contains("default_bucket: "));
}

}  // namespace proxy_decisions_test
