#include "common/base/node_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace node_file_test {

using namespace tarn;
namespace fs = std::filesystem;

struct Directory {
  fs::path path;
  Directory() {
    std::string pattern = (fs::temp_directory_path() / "tarn-node-file.XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Directory() { fs::remove_all(path); }
  [[nodiscard]] nlohmann::json json() const {
    std::ifstream in(path / "node.json");
    return nlohmann::json::parse(in, nullptr, false);
  }
};

TEST_CASE("node.json of a target names its listeners and drives", "[base][node_file]") {
  const Directory dir;
  NodeFile node{.id = "tAAAA",
                .role = "target",
                .public_url = "http://127.0.0.1:1",
                .relay_url = "",
                .internal_url = "http://127.0.0.1:2",
                .drives = {"/srv/d1", "/srv/d2"}};
  REQUIRE(write_node_file(dir.path, node));
  CHECK(dir.json() ==
        nlohmann::json{
            {"id", "tAAAA"},
            {"role", "target"},
            {"pid", ::getpid()},
            {"urls", {{"public", "http://127.0.0.1:1"}, {"internal", "http://127.0.0.1:2"}}},
            {"drives", {"/srv/d1", "/srv/d2"}}});
  CHECK_FALSE(fs::exists(dir.path / "node.json.new"));
}

TEST_CASE("node.json of a proxy has its relay and no drives", "[base][node_file]") {
  const Directory dir;
  REQUIRE(write_node_file(dir.path, {.id = "pA",
                                     .role = "proxy",
                                     .public_url = "http://h:1",
                                     .relay_url = "http://h:2",
                                     .internal_url = "http://h:3",
                                     .drives = {}}));
  CHECK(dir.json()["urls"]["relay"] == "http://h:2");
  CHECK_FALSE(dir.json().contains("drives"));
  REQUIRE(remove_node_file(dir.path));
  CHECK_FALSE(fs::exists(dir.path / "node.json"));
  CHECK(remove_node_file(dir.path));
}

TEST_CASE("a node keeps the id of its first start", "[base][node_file]") {
  const Directory dir;
  const auto first = load_or_create_node_id(dir.path, "proxy");
  REQUIRE(first);
  CHECK(first->size() == 9);
  CHECK(first->front() == 'p');
  CHECK(*load_or_create_node_id(dir.path, "proxy") == *first);
}

TEST_CASE("a damaged id is an error, never a new node", "[base][node_file]") {
  const Directory dir;
  for (const char* text : {"", "pshort", "tAAAAAAAA", "p bcdefgh"}) {
    std::ofstream(dir.path / "proxy.id") << text;
    const auto id = load_or_create_node_id(dir.path, "proxy");
    REQUIRE_FALSE(id);
    CHECK(id.error().code == Errc::corrupt);
  }
}

TEST_CASE("a directory that is not there is an error that names it", "[base][node_file]") {
  const auto written = write_node_file("/nonexistent/dir", {});
  REQUIRE_FALSE(written);
  CHECK_THAT(written.error().message, Catch::Contains("/nonexistent/dir"));
}

}  // namespace node_file_test
