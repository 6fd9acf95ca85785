#include "common/base/backoff.h"

#include <catch2/catch.hpp>

namespace backoff_test {

using namespace tarn;
using namespace std::chrono_literals;

TEST_CASE("backoff: pauses double up to the last, each from its half to all of it", "[base]") {
  for (int round = 0; round < 100; ++round) {
    Backoff backoff(100ms, 500ms);
    for (const auto most : {100ms, 200ms, 400ms, 500ms, 500ms}) {
      const auto pause = backoff.next();
      CHECK(pause >= most / 2);
      CHECK(pause <= most);
    }
    backoff.reset();
    CHECK(backoff.next() <= 100ms);
  }
}

}  // namespace backoff_test
