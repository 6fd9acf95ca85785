#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/api/summary.h"
#include "proxy/admin/job_answers.h"

namespace jobs_test {

using namespace tarn;
using namespace tarn::proxy;
using nlohmann::json;

api::Bucket photos() {
  api::Bucket out;
  out.name = "photos";
  return out;
}

JobQuery with_id(std::string id) {
  JobQuery out;
  out.id = std::move(id);
  return out;
}

JobQuery of_kind(std::string kind) {
  JobQuery out;
  out.kind = std::move(kind);
  return out;
}

JobQuery on_node(std::string node) {
  JobQuery out;
  out.node = std::move(node);
  return out;
}

/// Progress of a target that sent some of its objects to `to`.
api::CopyProgress progress(std::uint64_t objects, std::uint64_t bytes, const char* to,
                           api::CopyProgress::Sent sent) {
  api::CopyProgress out;
  out.objects = objects;
  out.bytes = bytes;
  out.sent[to] = sent;
  return out;
}

Job summary_job(std::initializer_list<const char*> targets, std::string id) {
  Job job;
  job.id = std::move(id);
  job.kind = "summary-bck";
  job.bucket = photos();
  for (const char* target : targets) job.parts[target] = {};
  return job;
}

TEST_CASE("job queries: what clients send is understood in any case of its keys", "[proxy][jobs]") {
  const auto query = parse_job_query(
      R"({"ID":"abc","Kind":"summary","DaemonID":"t1","Bck":null,"show_active":true})");
  REQUIRE(query);
  CHECK(query->id == "abc");
  CHECK(query->kind == "summary-bck");
  CHECK(query->node == "t1");
  CHECK(query->only_running);
  CHECK(parse_job_query("")->id.empty());
  CHECK_FALSE(parse_job_query(R"({"show_active":null})")->only_running);
  for (const char* bad : {"[]", "{", R"({"id":5})", R"({"show_active":"yes"})"})
    CHECK(parse_job_query(bad).error().code == Errc::invalid_argument);
}

TEST_CASE("job queries: status, lists and snaps have AIStore's shapes", "[proxy][jobs]") {
  const std::string done = "done-id-00";
  const std::string running = "running-id";
  std::vector<Job> all{summary_job({"t1", "t2"}, done), summary_job({"t1", "t2"}, running)};
  for (Job& job : all) REQUIRE(take(job, {"p1", 1}));
  all[0].parts["t1"] = {.objects = 3, .bytes = 30, .ended_ns = 0};
  REQUIRE(end(all[0], {}, 5));

  const json status = job_status(all, with_id(done)).value();
  CHECK(status["kind"] == "summary-bck");
  CHECK(status["uuid"] == done);
  CHECK(status["end_time"].get<std::int64_t>() > 0);
  CHECK(status["aborted"] == false);
  CHECK(job_status(all, of_kind("summary-bck")).value()["uuid"] == running);
  CHECK(job_status(all, with_id(running)).value()["end_time"] == 0);
  CHECK(job_status(all, with_id("nosuchid123")).error().code == Errc::not_found);
  CHECK(job_status(all, {}).error().code == Errc::invalid_argument);

  CHECK(job_status_all(all, {}).size() == 2);
  CHECK(job_status_all(all, of_kind("lru")) == json::array());
  CHECK(running_jobs(all, {}) == json{"summary-bck[" + running + "]"});

  const json snaps = job_snaps(all, with_id(done), {"t1", "t2"}).value();
  REQUIRE(snaps["t1"].size() == 1);
  CHECK(snaps["t1"][0]["stats"]["loc-objs"] == "3");
  CHECK(snaps["t1"][0]["is_idle"] == true);
  CHECK(snaps["t1"][0]["bck"]["name"] == "photos");
  CHECK(snaps["t1"][0]["end-time"] != "0001-01-01T00:00:00Z");
  const json live = job_snaps(all, with_id(running), {"t1", "t2"}).value();
  CHECK(live["t2"][0]["end-time"] == "0001-01-01T00:00:00Z");
  CHECK(live["t2"][0]["is_idle"] == false);
  // An unknown id is an error, a kind without jobs an empty list for each target.
  CHECK(job_snaps(all, with_id("nosuchid123"), {"t1"}).error().code == Errc::not_found);
  CHECK(job_snaps(all, of_kind("lru"), {"t1", "t2"}).value() ==
        json{{"t1", json::array()}, {"t2", json::array()}});
  CHECK(job_snaps(all, on_node("t2"), {"t1", "t2"}).value().size() == 1);
}

TEST_CASE("job queries: a copy shows both buckets, and what each target sent and received",
          "[proxy][jobs]") {
  const std::string id = "copy-id-00";
  Job copy = summary_job({"t1", "t2"}, id);
  copy.kind = "copy-bck";
  copy.to = photos();
  copy.to->name = "copied";
  take_progress(copy, "t1", progress(9, 90, "t2", {8, 80}), 0);
  take_progress(copy, "t2", progress(1, 10, "t1", {1, 10}), 0);
  // It begins again.
  take_progress(copy, "t1", progress(5, 50, "t2", {2, 20}), 0);
  const std::vector<Job> all{decode_job(encode(copy)).value()};
  const json snaps = job_snaps(all, with_id(id), {"t1", "t2"}).value();
  CHECK(snaps["t1"][0]["stats"] == json{{"loc-objs", "5"},
                                        {"loc-bytes", "50"},
                                        {"out-objs", "2"},
                                        {"out-bytes", "20"},
                                        {"in-objs", "1"},
                                        {"in-bytes", "10"}});
  CHECK(snaps["t2"][0]["stats"]["in-bytes"] == "20");
  CHECK(snaps["t1"][0]["src-bck"]["name"] == "photos");
  CHECK(snaps["t1"][0]["dst-bck"]["name"] == "copied");
  for (const char* body :
       {R"({"bck":{"name":"photos"}})", R"({"Bck":{"name":"copied","provider":""}})",
        R"({"buckets":[{"name":"no"},{"name":"copied"}]})", R"({"kind":"copy-bucket"})"})
    CHECK(job_status_all(all, parse_job_query(std::string(body)).value()).size() == 1);
  for (const char* body : {R"({"bck":{"name":"no"}})", R"({"kind":"mirror"})"})
    CHECK(job_status_all(all, parse_job_query(std::string(body)).value()).empty());
  CHECK(parse_job_query(std::string(R"({"bck":"photos"})")).error().code == Errc::invalid_argument);
}

TEST_CASE("a copy's message: what is chosen, what changes, and what contradicts itself",
          "[api][copy]") {
  const auto parsed = api::parse_bucket_copy(json::parse(
      R"({"Prefix":"a/","prepend":"b-","ext":{".jpg":"txt"},"num-workers":-1,"non-recurs":true,
          "latest-ver":true,"dry_run":true,"nobody-knows":5,"id":""})"));
  REQUIRE(parsed);
  CHECK(parsed->prefix == "a/");
  CHECK_FALSE(parsed->recursive);
  CHECK(parsed->dry_run);
  CHECK(parsed->workers == -1);
  CHECK(parsed->name_of_copy("a/x.jpg") == "b-a/x.txt");
  CHECK(parsed->name_of_copy("a/x.jpeg") == "b-a/x.jpeg");
  CHECK(parsed->name_of_copy("jpg") == "b-jpg");
  CHECK(json(*parsed).get<api::BucketCopy>() == *parsed);
  CHECK(api::parse_bucket_copy(nullptr).value() == api::BucketCopy());
  for (const char* bad : {R"("x")", R"({"prefix":5})", R"({"dry_run":1})", R"({"num-workers":129})",
                          R"({"num-workers":-2})", R"({"ext":{"a":""}})", R"({"ext":{"a":5}})",
                          R"({"prepend":"../"})", R"({"synchronize":true,"prepend":"x"})",
                          R"({"synchronize":true,"ext":{"a":"b"}})"})
    CHECK(api::parse_bucket_copy(json::parse(bad)).error().code == Errc::invalid_argument);
  CHECK(api::parse_bucket_copy(json::parse(R"({"id":"etl"})")).error().code == Errc::unsupported);

  const api::CopyProgress progress{3, 30, 1, 2, {{"t2", {1, 10}}}, true, "why"};
  CHECK(json(progress).get<api::CopyProgress>() == progress);
  CHECK(api::parse_bucket_uname("ais/@#/photos/").value() == photos());
  CHECK(api::parse_bucket_uname("ais/@u#n/photos")->ns_uuid == "u");
  for (const char* bad :
       {"", "photos", "ais/photos/", "ais/@#/", "ais/@#/a/b", "x/@#/a/", "/@#/a/"})
    CHECK(api::parse_bucket_uname(bad).error().code == Errc::invalid_argument);
}

TEST_CASE("a summary adds up objects and targets, and each file system once", "[api][summary]") {
  api::BucketSummary one;
  one.add_object(10);
  one.add_object(5000);
  one.disks = {{"m/a", 600'000}};
  api::BucketSummary two;
  two.add_object(1);
  two.disks = {{"m/a", 600'000}, {"m/b", 400'000}};
  api::BucketSummary sum;
  sum.add(one);
  sum.add(two);
  sum.add(api::BucketSummary{});
  CHECK(sum == api::BucketSummary{3, 5011, 1, 5000, 4096 + 8192 + 4096, two.disks});
  CHECK(json(sum).get<api::BucketSummary>() == sum);
  const json shown = api::aistore_summary(photos(), sum);
  CHECK(shown == json::parse(R"({
    "name": "photos", "provider": "ais", "namespace": {"uuid": "", "name": ""},
    "ObjCount": {"obj_count_present": "3", "obj_count_remote": "0"},
    "ObjSize": {"obj_min_size": 1, "obj_avg_size": 1670, "obj_max_size": 5000},
    "TotalSize": {"size_on_disk": "16384", "size_all_present_objs": "5011",
                  "size_all_remote_objs": "0", "total_disks_size": "1000000"},
    "used_pct": 0, "is_present": true})"));
  const json empty = api::aistore_summary(photos(), {});
  CHECK(empty["ObjCount"]["obj_count_present"] == "0");
  CHECK(empty["ObjSize"]["obj_avg_size"] == 0);
  CHECK(empty["used_pct"] == 0);
}

}  // namespace jobs_test
