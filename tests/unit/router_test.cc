#include "common/http/router.h"

#include <catch2/catch.hpp>

namespace tarn::http {
namespace router_test {

const Router& router() {
  static const Router instance({
      {"GET", "/v1/daemon", "what", nullptr},
      {"GET POST", "/v1/buckets", "buckets", nullptr},
      {"GET HEAD POST DELETE", "/v1/buckets/*", "bucket", nullptr},
      {"GET HEAD PUT DELETE", "/v1/objects/*/**", "object", nullptr},
      {"GET", "/", "root", nullptr},
      {"GET HEAD PUT DELETE", "/*", "one segment", nullptr},
      {"GET HEAD PUT DELETE", "/*/**", "easy", nullptr},
  });
  return instance;
}

struct Row {
  std::string_view method;
  std::string_view path;
  std::string_view summary;
  std::vector<std::string> parts;
};

TEST_CASE("the first row with path and method is taken", "[http][router]") {
  const Row rows[] = {
      {"GET", "/", "root", {}},
      {"GET", "//", "root", {}},
      {"GET", "/v1/daemon", "what", {}},
      {"GET", "//v1///daemon/", "what", {}},
      {"GET", "/v1/buckets/", "buckets", {}},
      {"GET", "/v1/buckets/b", "bucket", {"b"}},
      {"GET", "/v1/buckets//b", "bucket", {"b"}},
      {"PUT", "/v1/objects/b/o", "object", {"b", "o"}},
      {"PUT", "/v1/objects/b/a/b%2Fc", "object", {"b", "a/b/c"}},
      {"PUT", "/v1/objects/b/a%20b%25", "object", {"b", "a b%"}},
      {"PUT", "/v1/objects/b//o", "object", {"b", "/o"}},
      {"PUT", "/v1/objects/b/a//o", "object", {"b", "a//o"}},
      {"PUT", "/v1/objects/b/o/", "object", {"b", "o/"}},
      {"PUT", "/v1/objects/b", "object", {"b", ""}},
      {"PUT", "/%761/objects/b/o", "object", {"b", "o"}},
      {"GET", "/name", "one segment", {"name"}},
      {"GET", "/name/", "easy", {"name", ""}},
      {"GET", "/name/a/b", "easy", {"name", "a/b"}},
      {"PUT", "/%E4%BD%A0/x", "easy", {"你", "x"}},
  };
  for (const auto& row : rows) {
    INFO(row.method << " " << row.path);
    const auto match = router().match(row.method, row.path);
    REQUIRE(match.has_value());
    REQUIRE(match->route != nullptr);
    CHECK(match->route->summary == row.summary);
    CHECK(match->parts == row.parts);
  }
}

TEST_CASE("a method that no row of the path has is named with those that exist", "[http][router]") {
  const auto match = router().match("PATCH", "/v1/objects/b/o");
  REQUIRE(match.has_value());
  CHECK(match->route == nullptr);
  CHECK(match->allow == "GET HEAD PUT DELETE");
  const auto root = router().match("PUT", "/");
  REQUIRE(root.has_value());
  CHECK(root->route == nullptr);
  CHECK(root->allow == "GET");
}

TEST_CASE("a catch-all takes nothing from the paths above it", "[http][router]") {
  const Router small({{"GET", "/v1/daemon", "read", nullptr},
                      {"PUT", "/v1/daemon", "write", nullptr},
                      {"GET PUT DELETE", "/*/**", "easy", nullptr}});
  CHECK(small.match("PUT", "/v1/daemon")->route->summary == "write");
  const auto deleted = small.match("DELETE", "/v1/daemon");
  REQUIRE(deleted.has_value());
  CHECK(deleted->route == nullptr);
  CHECK(deleted->allow == "GET PUT");
}

TEST_CASE("methods are compared whole", "[http][router]") {
  for (const char* method : {"GE", "get", "", "GET ", "T"}) {
    INFO(method);
    const auto match = router().match(method, "/v1/daemon");
    REQUIRE(match.has_value());
    CHECK(match->route == nullptr);
  }
}

TEST_CASE("a path that no row has is not found, a malformed one is refused", "[http][router]") {
  const Router small({{"GET", "/v1/daemon", "", nullptr}, {"GET", "/v1/*", "", nullptr}});
  const auto missing = small.match("GET", "/v2/daemon");
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == Errc::not_found);
  const auto malformed = small.match("GET", "/v1/%zz");
  REQUIRE_FALSE(malformed.has_value());
  CHECK(malformed.error().code == Errc::invalid_argument);
}

}  // namespace router_test
}  // namespace tarn::http
