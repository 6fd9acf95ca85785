#include "target/node/pending_names.h"

#include <catch2/catch.hpp>

namespace tarn::target {
namespace pending_names_test {

using namespace std::chrono_literals;

TEST_CASE("pending names are due after a while, until they are settled", "[copies]") {
  PendingNames names;
  names.looked_through(true);
  const PendingNames::Time start{};
  names.add(BucketId(1), "a", start);
  names.add(BucketId(2), "a", start + 1s);
  CHECK(names.count() == 2);
  auto due = names.due(start, start + 2s);
  REQUIRE(due.size() == 1);
  CHECK(due[0].bucket == BucketId(1));
  CHECK(due[0].object == "a");
  CHECK(names.count() == 2);
  CHECK(names.due(start, start + 2s).empty());

  names.add(BucketId(1), "a", start + 3s);
  names.resolved(due[0]);
  CHECK(names.count() == 2);  // it has been written again since
  due = names.due(start + 3s, start + 5s);
  CHECK(due.size() == 2);
  names.resolved(due[0]);
  names.resolved(BucketId(2), "a");
  CHECK(names.count() == 0);
}

TEST_CASE("when there are too many pending names the drives must be looked through", "[copies]") {
  PendingNames names;
  CHECK(names.count() == 1);
  names.looked_through(true);
  for (std::size_t i = 0; i <= PendingNames::kMost; ++i)
    names.add(BucketId(1), std::to_string(i), PendingNames::Time());
  CHECK_FALSE(names.looked_through());
  CHECK(names.count() == PendingNames::kMost + 1);
}

}  // namespace pending_names_test
}  // namespace tarn::target
