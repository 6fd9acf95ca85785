#include "common/api/list_merge.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/seed.h"

namespace list_merge_test {

using namespace tarn;
using namespace tarn::api;

using Names = std::vector<std::string>;

PackedPage page_of(const Names& names, bool more) {
  PagePacker packer;
  for (const auto& name : names) {
    ListEntry entry;
    entry.name = name;
    packer.add(entry);
  }
  return packer.take(more);
}

Names names(const std::vector<PackedEntry>& list) {
  Names out;
  for (const auto& each : list) out.emplace_back(each.name);
  return out;
}

/// A target that holds sorted names and answers as one does.
struct Target {
  Names all;
  std::size_t asked = 0;

  Status answer(ListMerge& merge, std::size_t index, std::size_t limit) {
    ++asked;
    auto first = std::upper_bound(all.begin(), all.end(), merge.after(index));
    const auto count = std::min<std::size_t>(limit, static_cast<std::size_t>(all.end() - first));
    const auto last = first + static_cast<std::ptrdiff_t>(count);
    return merge.feed(index, page_of(Names(first, last), last != all.end()));
  }
};

struct Page {
  Names names;
  bool more = false;
};

Page list(std::vector<Target>& targets, std::size_t limit, const std::string& after) {
  ListMerge merge(targets.size(), limit, after);
  for (auto wanting = merge.wanting(); !wanting.empty(); wanting = merge.wanting())
    for (const std::size_t index : wanting)
      REQUIRE(targets[index].answer(merge, index, merge.batch()));
  return {names(merge.entries()), merge.more()};
}

TEST_CASE("list merge: names of all targets come in byte order", "[api][list]") {
  std::vector<Target> targets{{{"a", "d", "z"}}, {{"b"}}, {{}}, {{"B", "c", "\xC3\xA9"}}};
  const Page page = list(targets, 100, "");
  CHECK(page.names == Names{"B", "a", "b", "c", "d", "z", "\xC3\xA9"});
  CHECK_FALSE(page.more);
}

TEST_CASE("list merge: a page ends at its limit and the next begins behind it", "[api][list]") {
  std::vector<Target> targets{{{"a", "c", "e"}}, {{"b", "d"}}};
  const Page first = list(targets, 2, "");
  CHECK(first.names == Names{"a", "b"});
  CHECK(first.more);
  const Page second = list(targets, 2, "b");
  CHECK(second.names == Names{"c", "d"});
  CHECK(second.more);
  const Page third = list(targets, 2, "d");
  CHECK(third.names == Names{"e"});
  CHECK_FALSE(third.more);
}

TEST_CASE("list merge: a page that takes exactly all has nothing behind it", "[api][list]") {
  std::vector<Target> targets{{{"a", "c"}}, {{"b", "d"}}};
  const Page page = list(targets, 4, "");
  CHECK(page.names == Names{"a", "b", "c", "d"});
  CHECK_FALSE(page.more);
}

TEST_CASE("list merge: no targets and no names make an empty list", "[api][list]") {
  std::vector<Target> none;
  CHECK(list(none, 10, "").names.empty());
  CHECK_FALSE(list(none, 10, "").more);
  std::vector<Target> empty{{{}}, {{}}};
  CHECK(list(empty, 10, "").names.empty());
  CHECK_FALSE(list(empty, 10, "").more);
}

TEST_CASE("list merge: a directory of several targets is one entry", "[api][list]") {
  std::vector<Target> targets{{{"a", "dir/"}}, {{"dir/", "e"}}, {{"dir/"}}};
  CHECK(list(targets, 10, "").names == Names{"a", "dir/", "e"});
  const Page page = list(targets, 2, "");
  CHECK(page.names == Names{"a", "dir/"});
  CHECK(page.more);
  std::vector<Target> last{{{"a", "dir/"}}, {{"dir/"}}};
  CHECK_FALSE(list(last, 2, "").more);
}

TEST_CASE("list merge: nothing is merged past a target that has not shown its next name",
          "[api][list]") {
  ListMerge merge(2, 10, "");
  CHECK(merge.wanting() == std::vector<std::size_t>{0, 1});
  REQUIRE(merge.feed(0, page_of({"m"}, true)));
  CHECK(merge.entries().empty());
  CHECK(merge.wanting() == std::vector<std::size_t>{1});
  REQUIRE(merge.feed(1, page_of({"z"}, false)));
  CHECK(names(merge.entries()) == Names{"m"});
  CHECK(merge.wanting() == std::vector<std::size_t>{0});
  CHECK(merge.after(0) == "m");
  REQUIRE(merge.feed(0, page_of({"n"}, false)));
  CHECK(names(merge.entries()) == Names{"m", "n", "z"});
  CHECK(merge.wanting().empty());
}

TEST_CASE("list merge: names out of order are refused, not merged", "[api][list]") {
  ListMerge merge(1, 10, "k");
  CHECK(merge.feed(0, page_of({"k"}, false)).error().code == Errc::corrupt);
  ListMerge behind(1, 10, "k");
  CHECK(behind.feed(0, page_of({"m", "l"}, false)).error().code == Errc::corrupt);
  ListMerge twice(1, 10, "");
  CHECK(twice.feed(0, page_of({"m", "m"}, false)).error().code == Errc::corrupt);
  ListMerge endless(1, 10, "");
  CHECK(endless.feed(0, page_of({}, true)).error().code == Errc::corrupt);
}

TEST_CASE("list merge: any split over targets lists the same names, page by page", "[api][list]") {
  const auto seed = test_seed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = random() % 300;
    std::vector<Target> targets(1 + random() % 7);
    std::set<std::string> all;
    for (std::size_t i = 0; i < count; ++i) {
      std::string name = std::to_string(random() % 1000);
      if (random() % 4 == 0) name += '/';  // directories may be on several
      auto& target = targets[random() % targets.size()];
      if (name.ends_with('/') || !all.contains(name)) target.all.push_back(name);
      all.insert(name);
    }
    for (auto& target : targets) {
      std::sort(target.all.begin(), target.all.end());
      target.all.erase(std::unique(target.all.begin(), target.all.end()), target.all.end());
    }
    const std::size_t limit = 1 + random() % 50;
    Names listed;
    std::string after;
    for (bool more = true; more;) {
      const Page page = list(targets, limit, after);
      REQUIRE(page.names.size() <= limit);
      if (page.more) REQUIRE(page.names.size() == limit);
      listed.insert(listed.end(), page.names.begin(), page.names.end());
      more = page.more;
      if (more) after = page.names.back();
    }
    REQUIRE(listed == Names(all.begin(), all.end()));
  }
}

}  // namespace list_merge_test
