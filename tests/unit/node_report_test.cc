#include "common/cluster/admin/node_report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/archive.h"
#include "common/cluster/admin/daemon.h"
#include "common/obs/log.h"

namespace node_report_test {

using namespace tarn;
using namespace tarn::cluster;
using nlohmann::json;

TEST_CASE("/proc: memory, load, processors and disks are read", "[obs][proc]") {
  const auto memory = obs::parse_meminfo(
      "MemTotal:       24684112 kB\nMemFree:         1000 kB\nMemAvailable:   2000 kB\n"
      "Buffers:             10 kB\nCached:              20 kB\nSwapTotal:            0 kB\n");
  CHECK(memory.total == 24684112ULL * 1024);
  CHECK(memory.available == 2000ULL * 1024);
  CHECK(memory.buffers_and_cache == 30ULL * 1024);
  CHECK(obs::parse_loadavg("11.64 9.25 4.75 3/391 12345\n").five == Approx(9.25));
  const auto cpu = obs::parse_cpu("cpu  100 5 50 800 20 3 2 10 7 0\ncpu0 1 2 3 4\n");
  CHECK(cpu.total == 990);
  CHECK(cpu.busy == 170);
  const auto process =
      obs::parse_process("42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0",
                         "1000 200 30 1 0 5 0", 4096, 100);
  CHECK(process.user_ms == 2500);
  CHECK(process.system_ms == 500);
  CHECK(process.size == 4'096'000);
  CHECK(process.shared == 30ULL * 4096);
  const auto disks = obs::parse_diskstats(
      " 254       0 vda 10 0 80 5 20 0 160 6 0 1234 0 0 0 0 0 0 0\nnonsense\n");
  REQUIRE(disks.size() == 1);
  CHECK(disks.at("vda").read_bytes == 40'960);
  CHECK(disks.at("vda").written_bytes == 81'920);
  CHECK(disks.at("vda").busy_ms == 1234);
  CHECK(obs::parse_meminfo("").total == 0);
  CHECK(obs::read_memory().total > 0);
  CHECK(obs::read_process().resident > 0);
}

TEST_CASE("mountinfo: a path belongs to the longest mount point above it", "[io][mount]") {
  const std::string text =
      "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
      "30 22 0:50 / /srv rw - tmpfs tmpfs rw\n"
      "31 30 8:1 / /srv/my\\040drive rw shared:9 master:1 - xfs /dev/sda1 rw\n"
      "nonsense\n";
  CHECK(io::find_mount(text, "/srv/my drive/data").device == "/dev/sda1");
  CHECK(io::find_mount(text, "/srv/my drive").type == "xfs");
  CHECK(io::find_mount(text, "/srv/my").type == "tmpfs");
  CHECK(io::find_mount(text, "/srvice").device == "/dev/vda1");
  CHECK(io::find_mount("", "/srv").device.empty());
  const auto here = io::mount_info("/");
  REQUIRE(here);
  CHECK_FALSE(here->type.empty());
  CHECK(here->id.find(',') != std::string::npos);
  CHECK_FALSE(io::mount_info("/no/such/path"));
}

TEST_CASE("archive: a tar file in gzip is made of a text", "[base][archive]") {
  const std::string tar = tar_of("t1.log", "hello\n", 1'700'000'000);
  CHECK(tar.size() == 512 + 512 + 1024);
  CHECK(tar.substr(0, 6) == "t1.log");
  CHECK(tar.substr(257, 5) == "ustar");
  CHECK(tar.substr(512, 6) == "hello\n");
  const std::string small = gzip(std::string(100'000, 'a'));
  CHECK(small.size() < 5000);
  CHECK(small.substr(0, 2) == "\x1F\x8B");
  CHECK(gzip("").size() >= 18);
}

TEST_CASE("node stats: requests are counted by what they do", "[cluster][stats]") {
  CHECK(operation_of(http::Method::get, "/v1/objects/b/o?x=1") == Operation::get);
  CHECK(operation_of(http::Method::put, "/v1/objects/b/o?append_type=append") == Operation::append);
  CHECK(operation_of(http::Method::put, "/b/o") == Operation::put);
  CHECK(operation_of(http::Method::del, "/ais/b/o") == Operation::del);
  CHECK(operation_of(http::Method::get, "/gs/b/o") == Operation::get);
  CHECK(operation_of(http::Method::get, "/v1/buckets/b?provider=ais") == Operation::lst);
  CHECK(operation_of(http::Method::get, "/v1/internal/list?bucket=1") == Operation::lst);
  for (const char* other :
       {"/v1/daemon?what=smap", "/metrics", "/", "/b/", "/ais/b", "/az/b", "/ui/x"})
    CHECK_FALSE(operation_of(http::Method::get, other));

  obs::Metrics metrics;
  NodeStats stats(metrics, Role::target, "tAAAA1");
  stats.count(Operation::get, 200, 1000, std::chrono::milliseconds(2));
  stats.count(Operation::get, 206, 500, std::chrono::milliseconds(4));
  stats.count(Operation::get, 404, 0, std::chrono::milliseconds(1));
  stats.count(Operation::put, 507, 10, std::chrono::milliseconds(1));
  stats.tick();
  const json tracker = stats.tracker(std::chrono::seconds(5));
  CHECK(tracker["get.n"] == 2);
  CHECK(tracker["get.size"] == 1500);
  CHECK(tracker["get.ns.total"] == 6'000'000);
  CHECK(tracker["get.ns"] == 3'000'000);
  CHECK(tracker["get.bps"].get<std::uint64_t>() > 0);
  CHECK_FALSE(tracker.contains("err.get.n"));
  CHECK(tracker["err.put.n"] == 1);
  CHECK(tracker["up.ns.time"] == 5'000'000'000);
  for (const auto& [name, value] : tracker.items()) CHECK(stats.kinds().contains(name));
  const std::string text = metrics.text();
  CHECK(text.find("ais_target_get_count{node_id=\"tAAAA1\"} 2") != std::string::npos);
  CHECK(text.find("ais_target_get_bytes{node_id=\"tAAAA1\"} 1500") != std::string::npos);
  CHECK(text.find("ais_target_err_put_count{node_id=\"tAAAA1\"} 1") != std::string::npos);
}

TEST_CASE("node report: drives of one file system count once, broken ones raise a flag",
          "[cluster][report]") {
  std::vector<DriveReport> drives(3);
  drives[0] = {"/srv/d1", "", {"/dev/sda1", "xfs", "sda", "1,2"}, 30, 70, true, false, false};
  drives[1] = {"/srv/d2", "", {"/dev/sda1", "xfs", "sda", "1,2"}, 30, 70, true, false, false};
  drives[2] = {"/srv/d3", "", {"/dev/sdb1", "ext4", "sdb", "3,4"}, 90, 10, true, true, false};
  const json capacity = capacity_json(drives);
  CHECK(capacity["total_used"] == "120");
  CHECK(capacity["total_avail"] == "80");
  CHECK(capacity["pct_max"] == 90);
  CHECK(capacity["pct_min"] == 30);
  CHECK(capacity["pct_avg"] == 50);
  CHECK(capacity["mountpaths"]["/srv/d3"]["fs"]["FsType"] == "ext4");
  CHECK(capacity["mountpaths"]["/srv/d1"]["disks"] == json{"sda"});
  CHECK(file_systems_json(drives)["fs_capacity"] == "200");
  CHECK(state_flags(drives) == (kFlagsHealthy | kFlagLowCapacity));
  drives[1].usable = false;
  CHECK((state_flags(drives) & kFlagDiskFault) != 0);
  CHECK(mountpaths_json(drives) == json{{"available", {"/srv/d1", "/srv/d3"}},
                                        {"waiting_dd", json::array()},
                                        {"disabled", {"/srv/d2"}}});
  drives[1].state = "out";
  CHECK(mountpaths_json(drives)["states"] == json{{"/srv/d2", "out"}});
  CHECK(capacity_json(drives)["cs_err"].get<std::string>().find("/srv/d2") != std::string::npos);
  CHECK(state_flags({}) == kFlagsHealthy);
  CHECK(capacity_json({})["pct_min"] == 0);
}

TEST_CASE("log: the last lines are kept, by severity and from an offset", "[obs][log]") {
  obs::log("tail-test").info("first marker-a");
  const auto before = obs::log_tail("info").value();
  obs::log("tail-test").warn("second marker-b");
  obs::log("tail-test").info("third marker-c");
  const auto all = obs::log_tail("info").value();
  CHECK(all.text.find("marker-a") != std::string::npos);
  CHECK(all.text.find("marker-c") != std::string::npos);
  const auto bad = obs::log_tail("warning").value();
  CHECK(bad.text.find("marker-b") != std::string::npos);
  CHECK(bad.text.find("marker-c") == std::string::npos);
  const auto rest = obs::log_tail("info", before.begin + before.text.size()).value();
  CHECK(rest.text.find("marker-a") == std::string::npos);
  CHECK(rest.text.find("marker-b") != std::string::npos);
  CHECK_FALSE(obs::log_tail("loud"));

  obs::begin_log();
  CHECK(obs::log_tail("info").value().text.find("marker-c") == std::string::npos);
}

}  // namespace node_report_test
