// Lines of `tarn rebuild status` and `tarn redundancy` about objects that wait.

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/tools/wait_words.h"

namespace cli_waits_test {

using nlohmann::ordered_json;

TEST_CASE("waits: each reason is a line that says who, since when and until when", "[cli]") {
  const ordered_json waits = ordered_json::parse(R"([
    {"why":"waits_for_node","node":"tA","objects":12,"targets":["t1"],"down_seconds":179.6,
     "out_in_seconds":719.9},
    {"why":"waits_for_node","node":"tB","objects":1,"targets":["t1"]},
    {"why":"waits_for_drive","node":"tC","objects":2,"targets":["t1"]},
    {"why":"no_room","node":"tD","objects":3,"targets":["t1"]},
    {"why":"no_room","objects":3,"targets":["t1"]},
    {"why":"too_few_slices","objects":1,"targets":["t1"]},
    {"why":"limit","setting":"rebuild.bandwidth_max","objects":5,"targets":["t1","t2"]},
    {"why":"clients","objects":0,"targets":["t2"]},
    {"why":"stopped","objects":4,"targets":["t2"]},
    {"why":"failed","node":"tE","objects":2,"targets":["t1"],"error":"it\u001b is full"}])");
  const std::vector<std::string> wanted{
      "12 objects wait for t[tA], which has been down for 3m; it is out in 12m",
      "1 object waits for t[tB], which does not answer",
      ("2 objects wait for a drive of t[tC] that may be back; it is given up for lost after a "
       "minute"),
      "3 objects find no room at t[tD]: add drives, or free some space",
      "3 objects find no place: too few targets with a drive for each slice are up",
      "1 object has too few slices to be made again: tarn redundancy names lost objects",
      "rebuild.bandwidth_max holds back t[t1], t[t2]: 5 objects are left",
      "clients go first at t[t2], rebuild.bandwidth_min is kept: reads for other targets",
      "stopped by an operator at t[t2]: 4 objects are left; tarn rebuild start goes on"};
  const auto lines = tarn::cli::lines_of_waits(waits);
  REQUIRE(lines.size() == 10);
  CHECK(std::vector<std::string>(lines.begin(), lines.end() - 1) == wanted);
  CHECK(lines.back().find('\x1b') == std::string::npos);
  CHECK(lines.back().find("2 objects failed at t[tE], and is tried again: it") == 0);
}

}  // namespace cli_waits_test
