#include "target/drive/record_pages.h"

#include "drive_fixture.h"
#include <catch2/catch.hpp>

namespace record_pages_test {

using namespace tarn;
using namespace tarn::target;
using namespace tarn::target::testing;

using Names = std::vector<std::string>;

RecordPages<std::string>::Take objects_only() {
  return [](std::string_view name, const io::ObjectRecord& record, Names& to) {
    if (record.kind == io::ObjectRecord::Kind::object) to.emplace_back(name);
  };
}

std::vector<Names> all_pages(RecordPages<std::string> pages) {
  std::vector<Names> out;
  while (pages.more()) {
    auto page = wait_for(pages.next());
    REQUIRE(page.has_value());
    out.push_back(std::move(*page));
  }
  return out;
}

TEST_CASE("record pages: of a bucket without records one is empty", "[target][drive]") {
  Fixture f;
  CHECK(all_pages({*f.drive, BucketId(1), objects_only()}) == std::vector<Names>{{}});
}

TEST_CASE("record pages: each record once, whatever ends a page", "[target][drive]") {
  Fixture f;
  for (const char* name : {"a", "b", "c", "d", "e"}) REQUIRE(f.put(name, name).has_value());
  REQUIRE(f.remove("b").has_value());
  const auto pages = [&](PageSize size, std::string after = "") {
    return all_pages({*f.drive, BucketId(1), objects_only(), size, std::move(after)});
  };
  CHECK(pages({}) == std::vector<Names>{{"a", "c", "d", "e"}});
  CHECK(pages({.items = 2}) == std::vector<Names>{{"a", "c"}, {"d", "e"}, {}});
  // A tombstone counts as a record, and is no item.
  CHECK(pages({.records = 2}) == std::vector<Names>{{"a"}, {"c", "d"}, {"e"}});
  CHECK(pages({.records = 2}, "c") == std::vector<Names>{{"d", "e"}, {}});
}

TEST_CASE("record pages: no page goes past the last name of a range", "[target][drive]") {
  Fixture f;
  for (const char* name : {"a", "b", "c", "d", "e"}) REQUIRE(f.put(name, name).has_value());
  const auto pages = [&](const std::string& up_to, PageSize size = {}) {
    return all_pages({*f.drive, BucketId(1), objects_only(), size, "a", {.up_to = up_to}});
  };
  CHECK(pages("c") == std::vector<Names>{{"b", "c"}});
  CHECK(pages("cc") == std::vector<Names>{{"b", "c"}});
  CHECK(pages("d", {.items = 2}) == std::vector<Names>{{"b", "c"}, {"d"}});
  CHECK(pages("c", {.records = 2}) == std::vector<Names>{{"b", "c"}, {}});
  CHECK(pages("a") == std::vector<Names>{{}});
}

TEST_CASE("record pages: only names that begin with a prefix", "[target][drive]") {
  Fixture f;
  for (const char* name : {"a", "b", "ba", "bb", "c"}) REQUIRE(f.put(name, name).has_value());
  const RecordWalk walk{.prefix = "b", .purpose = TurnFor::client};
  CHECK(all_pages({*f.drive, BucketId(1), objects_only(), {.items = 2}, "", walk}) ==
        std::vector<Names>{{"b", "ba"}, {"bb"}});
}

TEST_CASE("record pages: a page ends after all items of a record", "[target][drive]") {
  Fixture f;
  for (const char* name : {"a", "b", "c", "d"}) REQUIRE(f.put(name, name).has_value());
  const auto two = [](std::string_view name, const io::ObjectRecord&, Names& to) {
    to.insert(to.end(), 2, std::string(name));
  };
  CHECK(all_pages({*f.drive, BucketId(1), two, {.items = 3}}) ==
        std::vector<Names>{{"a", "a", "b", "b"}, {"c", "c", "d", "d"}, {}});
}

TEST_CASE("record pages: what changes between pages does not end or repeat them",
          "[target][drive]") {
  Fixture f;
  for (const char* name : {"a", "b", "c", "d"}) REQUIRE(f.put(name, name).has_value());
  RecordPages<std::string> pages(*f.drive, BucketId(1), objects_only(), {.items = 2});
  CHECK(wait_for(pages.next()).value() == Names{"a", "b"});
  CHECK(pages.last() == "b");
  REQUIRE(f.remove("b").has_value());
  REQUIRE(f.put("aa", "new").has_value());  // before the next page
  REQUIRE(f.put("bb", "new").has_value());
  CHECK(wait_for(pages.next()).value() == Names{"bb", "c"});
  CHECK(wait_for(pages.next()).value() == Names{"d"});
  CHECK_FALSE(pages.more());
}

}  // namespace record_pages_test
