// Requests of downloads, links and names; the state that a job keeps.

#include "common/api/download.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/custom_metadata.h"
#include "common/api/download_batch.h"
#include "proxy/jobs/download_state.h"

namespace download_test {

using nlohmann::json;
using tarn::api::DownloadRequest;

json asked(const json& more) {
  json out{{"bucket", {{"name", "data"}}}};
  out.update(more);
  return json::parse(out.dump());  // as it comes: whole numbers without a sign
}

std::string refusal(const json& more) {
  const auto parsed = tarn::api::parse_download(asked(more));
  return parsed ? "" : parsed.error().message;
}

TEST_CASE("download: a link is taken apart, and shown without its query") {
  const auto web = tarn::api::parse_link("HTTPS://Host:8443/dir/a%20b.tar?sig=1/2");
  REQUIRE(web.has_value());
  CHECK(web->server == "https://host:8443");
  CHECK(web->path == "/dir/a%20b.tar?sig=1/2");
  CHECK(web->name == "a b.tar");
  CHECK(web->display() == "https://host:8443/dir/a%20b.tar");
  const auto bare = tarn::api::parse_link("http://host?x=1");
  REQUIRE(bare.has_value());
  CHECK(bare->path == "/?x=1");
  CHECK(bare->name.empty());
  const auto cloud = tarn::api::parse_link("s3://bucket/dir/a b?.tar");
  REQUIRE(cloud.has_value());
  CHECK(cloud->server == "s3://bucket");
  CHECK(cloud->path == "dir/a b?.tar");
  CHECK(cloud->name == "a b?.tar");
  CHECK(cloud->display() == "s3://bucket/dir/a b?.tar");
  for (const char* wrong : {"", "host/a", "file:///a", "http://", "http:///a", "http://u@h/a",
                            "http://h/a#b", "http://h/a b", "http://h/a%zz", "http://h/\x01",
                            "http://h/\xc3\xa4", "s3://bucket", "s3://bucket/", "s3://../a"}) {
    INFO(wrong);
    CHECK(!tarn::api::parse_link(wrong));
  }
}

TEST_CASE("download: objects of a range are named by the last part of their links") {
  const auto parsed = tarn::api::parse_download(asked(
      {{"type", "range"}, {"template", "http://h/d/s-{008..010}.tar?k=1"}, {"subdir", "in/"}}));
  REQUIRE(parsed.has_value());
  CHECK(parsed->count() == 3);
  CHECK(parsed->item(0).name == "in/s-008.tar");
  CHECK(parsed->item(2).name == "in/s-010.tar");
  CHECK(parsed->item(2).link == "http://h/d/s-010.tar?k=1");
  CHECK(parsed->description == "http://h/d/s-{008..010}.tar -> ais://data/in/");
  CHECK(parsed->servers().size() == 1);
  CHECK(!parsed->is_backend());
  CHECK(refusal({{"type", "range"}, {"template", "http://h/d?k={1..2}"}}).find("last part") !=
        std::string::npos);
  CHECK(refusal({{"type", "range"}, {"template", "http://h{1..2}/d"}}).find("last part") !=
        std::string::npos);
}

TEST_CASE("download: a list is named by its links, a map names them") {
  const auto list = tarn::api::parse_download(
      asked({{"type", "multi"}, {"objects", {"http://h/a", "https://h/b?x"}}}));
  REQUIRE(list.has_value());
  CHECK(list->count() == 2);
  CHECK(list->item(1).name == "b");
  CHECK(list->servers().size() == 2);
  const auto map = tarn::api::parse_download(
      asked({{"type", "multi"}, {"objects", {{"x/y", "http://h/a"}, {"z", "http://h/a"}}}}));
  REQUIRE(map.has_value());
  CHECK(map->item(0).name == "x/y");
  CHECK(map->item(1).link == "http://h/a");
  CHECK(refusal({{"type", "multi"}, {"objects", {"http://h/a", "http://g/a"}}}).find("one name") !=
        std::string::npos);
}

TEST_CASE("download: limits, headers and times") {
  const auto parsed = tarn::api::parse_download(
      asked({{"type", "single"},
             {"link", "http://h/a"},
             {"timeout", "1m30s"},
             {"progress_interval", "10s"},
             {"limits", {{"connections", 3}, {"bytes_per_hour", 7200}}},
             {"headers", {{"Authorization", {"Bearer x"}}, {"X-B", "c"}}}}));
  REQUIRE(parsed.has_value());
  const auto& terms = parsed->terms;
  CHECK(terms.connections == 3);
  CHECK(terms.bytes_per_hour == 7200);
  CHECK(terms.timeout == std::chrono::seconds(90));
  CHECK(terms.headers ==
        tarn::api::DownloadTerms::Headers{{"Authorization", "Bearer x"}, {"X-B", "c"}});
  const auto back = json::parse(json(terms).dump()).get<tarn::api::DownloadTerms>();
  CHECK(back.headers == terms.headers);
  CHECK(back.timeout == terms.timeout);
  CHECK(refusal({{"type", "single"}, {"link", "http://h/a"}, {"headers", {{"host", "x"}}}})
            .find("own to send") != std::string::npos);
  CHECK(refusal({{"type", "backend"}, {"headers", {{"X", "x"}}}}).find("web servers alone") !=
        std::string::npos);
  CHECK(refusal({{"type", "backend"}, {"sync", true}}).find("synchronize") != std::string::npos);
}

TEST_CASE("download: a bucket, or an object, of an upstream") {
  const auto bucket = tarn::api::parse_download(
      asked({{"type", "backend"}, {"prefix", "a/"}, {"suffix", ".tar"}, {"synchronize", true}}));
  REQUIRE(bucket.has_value());
  CHECK(bucket->is_backend());
  CHECK(!bucket->count());
  CHECK(bucket->terms.synchronize);
  const auto one = tarn::api::parse_download(
      asked({{"type", "single"}, {"object_name", "x"}, {"from_remote", true}}));
  REQUIRE(one.has_value());
  CHECK(one->is_backend());
  CHECK(one->count() == 1);
  CHECK(one->servers().empty());
}

TEST_CASE("download: which jobs a client means") {
  CHECK(tarn::api::parse_download_query("").has_value());
  const auto query =
      tarn::api::parse_download_query(R"({"id":"","regex":"a","only_active_tasks":true})");
  REQUIRE(query.has_value());
  CHECK(query->regex == "a");
  CHECK(query->only_active);
  for (const char* wrong :
       {"[", "[]", R"({"id":1})", R"({"ID":"a"})", R"({"id":"a","regex":"b"})"}) {
    INFO(wrong);
    CHECK(!tarn::api::parse_download_query(wrong));
  }
}

TEST_CASE("download: a batch and its progress come back as they were sent") {
  tarn::api::DownloadBatch batch;
  batch.job = "dnl-x";
  batch.bucket = 7;
  batch.bytes_per_second = 9;
  batch.items = {{"a", "http://h/a"}, {"b", ""}};
  const auto got = json::parse(json(batch).dump()).get<tarn::api::DownloadBatch>();
  CHECK(got.items.size() == 2);
  CHECK(got.items[0].link == "http://h/a");
  CHECK(got.bytes_per_second == 9);
  tarn::api::DownloadProgress progress;
  progress.current = {{1, 2, 3, 4}};
  progress.finished = {{0, 5, 6, 7}};
  progress.failed = {{1, "why"}};
  progress.later = {2};
  const auto told = json::parse(json(progress).dump()).get<tarn::api::DownloadProgress>();
  CHECK(told.current.at(0).total == 3);
  CHECK(told.finished.at(0).ended_ns == 7);
  CHECK(told.failed.at(0).second == "why");
  CHECK(told.later == std::vector<std::uint32_t>{2});
}

TEST_CASE("download: lists of the state are cut, counts are exact") {
  tarn::proxy::DownloadState state;
  state.total = 500;
  for (int i = 0; i < 300; ++i) {
    state.add_error("e" + std::to_string(i), "why");
    state.add_ended({"o" + std::to_string(i), 1, 1, 1, 2});
    ++state.finished;
  }
  tarn::proxy::Job job;
  job.id = "dnl-1";
  job.results = {state.encode()};
  const json shown = tarn::proxy::download_status(job, true);
  CHECK(shown.at("error_cnt") == 300);
  CHECK(shown.at("finished_cnt") == 300);
  CHECK(shown.at("total") == 500);
  CHECK(shown.at("download_errors").size() == tarn::proxy::DownloadState::kErrorsMax);
  CHECK(shown.at("download_errors").front().at("name") == "e0");
  CHECK(shown.at("finished_tasks").size() == tarn::proxy::DownloadState::kEndedMax);
  CHECK(shown.at("finished_tasks").back().at("name") == "o299");
  CHECK(shown.at("finished_time") == "0001-01-01T00:00:00Z");
  job.results.clear();
  CHECK(tarn::proxy::download_status(job, false).at("total") == -1);
  job.results = {"{"};
  CHECK(tarn::proxy::download_summary(job).at("finished_cnt") == 0);
}

TEST_CASE("download: the keys of a link are the cluster's own") {
  CHECK(tarn::api::is_reserved_key(tarn::api::kLinkKey));
  CHECK(tarn::api::is_reserved_key("tarn-link-version"));
}

}  // namespace download_test
