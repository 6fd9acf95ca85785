#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "cli/base/progress.h"
#include "cli/transfer/tree_walk.h"
#include "tests/unit/run_task.h"

namespace tarn::cli {
namespace cli_progress_test {

namespace fs = std::filesystem;

TEST_CASE("progress: a line says rate, percent and the time that is left", "[cli][progress]") {
  CHECK(progress_line("x.tar", {1U << 29U, 1U << 30U, 1 << 28}, 0) ==
        "x.tar   50%  512MiB of 1.0GiB  256MiB/s  0:02 left");
  CHECK(progress_line("x", {512, 0, 0}, 0) == "x  512B  0B/s");
  CHECK(progress_line("x", {10, 10, 5}, 0) == "x  100%  10B of 10B  5B/s");
  const std::string name(300, 'n');
  const std::string clipped = progress_line(name + ".tar", {1, 4, 1}, 60);
  CHECK(clipped.size() <= 60);
  CHECK(clipped.find(".tar   25%") != std::string::npos);
  CHECK(progress_line("a\x1b[2Jb", {1, 4, 1}, 0).find('\x1b') == std::string::npos);
  CHECK(clock_text(7) == "0:07");
  CHECK(clock_text(754) == "12:34");
  CHECK(clock_text(3 * 3600 + 62) == "3:01:02");
}

TEST_CASE("trees: links to files are files, other things are left out", "[cli][tree]") {
  const test::TemporaryDirectory temporary;
  const fs::path& top = temporary.path();
  fs::create_directories(top / "a/b");
  std::ofstream(top / "a/b/x.bin") << "hello";
  std::ofstream(top / "y") << "yes";
  fs::create_symlink("y", top / "link");
  fs::create_symlink("nowhere", top / "dangling");
  fs::create_directory_symlink("..", top / "a/up");
  fs::create_directory_symlink("a/b", top / "b2");
  REQUIRE(::mkfifo((top / "fifo").c_str(), 0600) == 0);

  const auto tree = walk_tree(top.string() + "/", LinksToDirectories::left_out);
  REQUIRE(tree.has_value());
  std::vector<std::string> names;
  for (const TreeFile& file : tree->files) names.push_back(file.name);
  CHECK(names == std::vector<std::string>{"a/b/x.bin", "link", "y"});
  CHECK(tree->bytes == 11);
  CHECK(tree->left_out.size() == 3);
  REQUIRE(tree->problems.size() == 1);
  CHECK(tree->problems.front().message.find("link to nothing") != std::string::npos);

  const auto followed = walk_tree(top, LinksToDirectories::followed);
  REQUIRE(followed.has_value());
  CHECK(followed->files.size() == 4);     // b2/x.bin, too
  CHECK(followed->left_out.size() == 2);  // the fifo, and the link that leads back
  CHECK(walk_tree(top / "none", LinksToDirectories::left_out).error().code == Errc::not_found);
  CHECK(walk_tree(top / "y", LinksToDirectories::left_out).error().code == Errc::invalid_argument);
}

}  // namespace cli_progress_test
}  // namespace tarn::cli
