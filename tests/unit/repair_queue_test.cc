// Which objects are repaired first.

#include "target/repair/repair_queue.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace tarn::target {
namespace repair_queue_test {

RepairQueue::Entry entry(const std::string& name) { return {{BucketId(1), name, name}, 1, 100}; }

std::vector<std::string> all_of(RepairQueue& queue) {
  std::vector<std::string> out;
  while (auto next = queue.next()) out.push_back(next->name.object);
  return out;
}

Repair repair(std::size_t left, std::size_t anew) {
  Repair out;
  out.left = left;
  out.missing = anew;
  for (std::size_t i = 0; i < anew; ++i)
    out.anew.push_back({static_cast<std::uint8_t>(i), "t0", 0});
  return out;
}

TEST_CASE("repair queue: who bears the fewest losses is first, however many slices are missing",
          "[target][repair]") {
  RepairQueue queue(10);
  queue.add(danger_of(repair(1, 3)), entry("8+4 without 3"));
  queue.add(danger_of(repair(0, 1)), entry("4+1 without 1"));
  queue.add(danger_of(repair(1, 1)), entry("4+2 without 1"));
  Repair moved = repair(0, 0);
  moved.moves.push_back({1, "t3", 0});
  queue.add(danger_of(moved), entry("to be moved"));
  Repair full_copy = repair(3, 0);
  full_copy.full_copy = "t1";
  queue.add(danger_of(full_copy), entry("without its full copy"));
  CHECK(queue.size() == 5);
  CHECK(all_of(queue) == std::vector<std::string>{"4+1 without 1", "8+4 without 3", "4+2 without 1",
                                                  "without its full copy", "to be moved"});
  CHECK(queue.size() == 0);
  CHECK_FALSE(queue.let_some_go());
}

TEST_CASE("repair queue: when there are too many the least endangered are let go",
          "[target][repair]") {
  RepairQueue queue(3);
  for (const char* name : {"a", "b", "c"}) queue.add(2, entry(name));
  CHECK_FALSE(queue.let_some_go());
  queue.add(2, entry("d"));  // no worse than what is there
  CHECK(queue.let_some_go());
  queue.add(0, entry("e"));
  queue.add(1, entry("f"));
  queue.add(3, entry("g"));
  CHECK(queue.size() == 3);
  CHECK(all_of(queue) == std::vector<std::string>{"e", "f", "a"});
  // Objects that were let go, or are done, have been counted.
  CHECK(queue.added().objects.at(1) == 7);
  CHECK(queue.added().buckets.at(BucketId(1)) == 7);
  CHECK(queue.added().bytes == 700);
  RepairQueue none(0);
  none.add(0, entry("a"));
  CHECK(none.let_some_go());
  CHECK_FALSE(none.next());
}

}  // namespace repair_queue_test
}  // namespace tarn::target
