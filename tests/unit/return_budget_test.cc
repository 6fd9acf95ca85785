#include "target/drives/return_budget.h"

#include <chrono>

#include <catch2/catch.hpp>

namespace return_budget_test {

using tarn::BootTime;
using tarn::target::ReturnBudget;

TEST_CASE("a drive that goes again and again comes back by itself a few times a day") {
  using std::chrono::hours;
  using std::chrono::minutes;
  ReturnBudget budget;
  BootTime now = hours(100);
  for (std::size_t i = 0; i < ReturnBudget::kPerDay; ++i, now += minutes(10)) {
    REQUIRE(budget.allows("a", now));
    budget.note("a", now);
  }
  CHECK_FALSE(budget.allows("a", now));
  CHECK(budget.allows("b", now));
  // A day after the first return, and not before.
  CHECK_FALSE(budget.allows("a", hours(124) - minutes(1)));
  CHECK(budget.allows("a", hours(124)));
  budget.note("a", hours(124));
  CHECK_FALSE(budget.allows("a", hours(124)));
}

}  // namespace return_budget_test
