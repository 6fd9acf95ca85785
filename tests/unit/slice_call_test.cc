#include "target/coded/slice_call.h"

#include <vector>

#include <catch2/catch.hpp>

namespace slice_call_test {

using namespace tarn;
using namespace tarn::target;

using namespace std::chrono_literals;
using Times = std::vector<std::chrono::steady_clock::duration>;

std::chrono::milliseconds late(Times took, std::size_t asked) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(late_after(took, asked));
}

TEST_CASE("A slice is late by what the others took", "[coded]") {
  CHECK(late({5ms, 6ms, 7ms}, 4) == 500ms);
  CHECK(late({300ms, 200ms, 250ms}, 4) == 1'000ms);
  // The slower ones of those that came say nothing of what is usual.
  CHECK(late({9'000ms, 10ms}, 4) == 500ms);
}

TEST_CASE("A slice that is alone, or among the first, is late after a fixed time", "[coded]") {
  CHECK(late({}, 1) == 2'000ms);
  CHECK(late({1ms}, 4) == 2'000ms);
  CHECK(late({1ms, 1ms}, 4) == 500ms);
}

}  // namespace slice_call_test
