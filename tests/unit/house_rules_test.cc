// House rules that a machine can see: which folder includes which, and words that the design rules
// out.

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>> kMayInclude{
    {"common/base", {"common/base"}},
    {"common/api", {"common/base", "common/api"}},
    {"common/obs", {"common/base", "common/obs"}},
    {"common/io", {"common/base", "common/api", "common/obs", "common/io"}},
    {"common/security", {"common/base", "common/api", "common/security"}},
    {"common/http",
     {"common/base", "common/api", "common/obs", "common/io", "common/security", "common/http"}},
    {"common/cluster",
     {"common/base", "common/api", "common/obs", "common/io", "common/security", "common/http",
      "common/cluster"}},
    {"ec", {"common/base", "ec"}},
};

std::string folder_of(const std::string& path) {
  const auto first = path.find('/');
  const std::string top = path.substr(0, first);
  if (top != "common") return top;
  return path.substr(0, path.find('/', first + 1));
}

bool may_include(const std::string& from, const std::string& to) {
  if (from == "tests") return true;
  if (const auto row = kMayInclude.find(from); row != kMayInclude.end())
    return row->second.count(to) > 0;
  return from == to || to.rfind("common/", 0) == 0 || (to == "ec" && from != "proxy");
}

struct Source {
  std::string path;  // relative to the top
  std::string text;
};

std::vector<Source> sources() {
  std::vector<Source> out;
  const fs::path top = TARN_SOURCE_DIR;
  for (const char* folder : {"common", "target", "proxy", "cli", "ec"}) {
    if (!fs::exists(top / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(top / folder)) {
      const auto ending = entry.path().extension();
      if (ending != ".h" && ending != ".cc") continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      out.push_back({fs::relative(entry.path(), top).string(), text.str()});
    }
  }
  return out;
}

}  // namespace

TEST_CASE("house rules: includes point one way", "[house]") {
  const std::regex include("#include \"([^\"]+)\"");
  std::size_t checked = 0;
  for (const Source& source : sources()) {
    for (std::sregex_iterator at(source.text.begin(), source.text.end(), include), end; at != end;
         ++at) {
      const std::string included = (*at)[1];
      INFO(source.path << " includes " << included);
      CHECK(may_include(folder_of(source.path), folder_of(included)));
      ++checked;
    }
  }
  CHECK(checked > 200);
}

TEST_CASE("house rules: of the target's files only main.cc includes those of target/upstream",
          "[house]") {
  const std::string room = "target/upstream/";
  for (const Source& source : sources()) {
    if (source.path.rfind(room, 0) == 0 || source.path == "target/main.cc") continue;
    INFO(source.path);
    CHECK(source.text.find("#include \"" + room) == std::string::npos);
  }
}

TEST_CASE("house rules: Beast appears in headers of common/http only", "[house]") {
  for (const Source& source : sources()) {
    if (source.path.rfind("common/http/", 0) == 0 || source.path.find(".cc") != std::string::npos)
      continue;
    INFO(source.path);
    CHECK(source.text.find("boost/beast") == std::string::npos);
  }
}

TEST_CASE("house rules: no body in memory whole, nobody unwaited for, no blocked thread",
          "[house]") {
  const std::regex banned(
      "file_body|string_body|asio::detached|std::this_thread::sleep|"
      "TODO|FIXME|XXX");
  for (const Source& source : sources()) {
    if (source.path == "common/base/fail_points.cc") continue;  // its business is to sleep
    INFO(source.path);
    std::smatch found;
    const bool has = std::regex_search(source.text, found, banned);
    INFO("found: " << (has ? found.str() : ""));
    CHECK_FALSE(has);
  }
}

namespace {

/// Constants and types in the unnamed namespaces of a file, at its left edge.
std::set<std::string> names_of_its_own(const std::string& text) {
  static const std::regex named(
      "^(?:(?:inline )?const(?:expr|init)? .*?\\b(k[A-Z]\\w*)\\b *[\\[={(;]|"
      "(?:struct|class|enum class) (\\w+))");
  std::set<std::string> out;
  std::istringstream lines(text);
  bool unnamed = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "namespace {") unnamed = true;
    if (line == "}  // namespace") unnamed = false;
    std::smatch found;
    if (unnamed && std::regex_search(line, found, named))
      out.insert(found[1].matched ? found[1].str() : found[2].str());
  }
  return out;
}

}  // namespace

TEST_CASE("house rules: files of a folder can be compiled together", "[house]") {
  CHECK(names_of_its_own("namespace {\nconstexpr int kA = 1;\nstruct B {\n}  // namespace\n"
                         "struct C;\n") == std::set<std::string>{"kA", "B"});
  std::map<std::string, std::string> owner;  // folder/name: file
  for (const Source& source : sources()) {
    if (source.path.find(".cc") == std::string::npos) continue;
    for (const std::string& name : names_of_its_own(source.text)) {
      const auto [found, is_new] = owner.emplace(folder_of(source.path) + "/" + name, source.path);
      INFO(name << " is in " << found->second << " and in " << source.path
                << ": one batch of the build may have both (cmake/CompileOptions.cmake)");
      CHECK(is_new);
    }
  }
  CHECK(owner.size() > 100);
}
