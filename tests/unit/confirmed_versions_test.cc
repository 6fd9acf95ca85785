#include "target/upstream/confirmed_versions.h"

#include <string>

#include <catch2/catch.hpp>

namespace confirmed_versions_test {

using namespace tarn;
using namespace tarn::target;
using namespace std::chrono_literals;

TEST_CASE("confirmed versions: a version counts from its last check on", "[upstream]") {
  ConfirmedVersions all;
  const Generation version{3, 1, 7};
  CHECK_FALSE(all.had_since("a", version, BootTime(0)));
  all.note("a", version, 10s);
  CHECK(all.had_since("a", version, 10s));
  CHECK_FALSE(all.had_since("a", version, 11s));
  CHECK_FALSE(all.had_since("b", version, 0s));
  for (const Generation& other : {Generation{4, 1, 7}, Generation{3, 2, 7}, Generation{3, 1, 8}})
    CHECK_FALSE(all.had_since("a", other, 0s));
  all.note("a", version, 20s);
  all.note("a", version, 15s);  // it was asked for earlier, and answered later
  CHECK(all.had_since("a", version, 20s));
}

TEST_CASE("confirmed versions: the newest are kept, in bounded memory", "[upstream]") {
  ConfirmedVersions all;
  const auto name = [](std::size_t i) { return "o-" + std::to_string(i); };
  for (std::size_t i = 0; i < 3 * ConfirmedVersions::kMost; ++i)
    all.note(name(i), Generation{1, 1, i}, BootTime(i));
  std::size_t kept = 0;
  for (std::size_t i = 0; i < 3 * ConfirmedVersions::kMost; ++i)
    kept += all.had_since(name(i), Generation{1, 1, i}, BootTime(0)) ? 1U : 0U;
  CHECK(kept >= ConfirmedVersions::kMost);
  CHECK(kept <= 2 * ConfirmedVersions::kMost);
  const std::size_t newest = 3 * ConfirmedVersions::kMost - 1;
  CHECK(all.had_since(name(newest), Generation{1, 1, newest}, BootTime(newest)));
}

}  // namespace confirmed_versions_test
