#include "target/repair/losses_borne.h"

#include <catch2/catch.hpp>

namespace tarn::target {
namespace losses_borne_test {

TEST_CASE("losses borne: the drives that have the most go first", "[target][repair]") {
  // 4 + 2 on as many drives, and with two slices on one of five.
  CHECK(losses_borne({1, 1, 1, 1, 1, 1}, 2) == 2);
  CHECK(losses_borne({1, 1, 2, 1, 1}, 2) == 1);
  // With one of them gone already that drive is one too many.
  CHECK(losses_borne({1, 1, 2, 1}, 1) == 0);
  CHECK(losses_borne({3, 3}, 2) == 0);
  CHECK(losses_borne({2, 2, 2}, 4) == 2);
  CHECK(losses_borne({2, 1}, 5) == 2);
  CHECK(losses_borne({}, 2) == 0);
}

}  // namespace losses_borne_test
}  // namespace tarn::target
