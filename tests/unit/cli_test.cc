#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <thread>

#include <catch2/catch.hpp>

#include "cli/base/exit_code.h"
#include "cli/base/patience.h"
#include "cli/base/place.h"
#include "cli/base/printing.h"
#include "cli/drives/export_files.h"
#include "cli/transfer/partial_name.h"
#include "cli/transfer/scratch_file.h"
#include "common/base/hash.h"
#include "tests/unit/run_task.h"

namespace tarn::cli {
namespace cli_test {

namespace fs = std::filesystem;

UniqueFd open_directory(const fs::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

FoundFile found(const fs::path& path, std::string_view content) {
  FoundFile file;
  file.path = path;
  file.size = content.size();
  file.xxh64 = xxh64(content);
  return file;
}

TEST_CASE("places are written in four ways", "[cli]") {
  for (const char* text : {"b/o/p", "tarn://b/o/p", "ais://b/o/p"}) {
    INFO(text);
    const auto place = parse_object(text);
    REQUIRE(place.has_value());
    CHECK(place->bucket == "b");
    CHECK(place->object == "o/p");
  }
  CHECK(parse_place("b")->object.empty());
  CHECK(parse_bucket("b").value().bucket == "b");
  CHECK(parse_bucket("tarn://b/").value().bucket == "b");
}

TEST_CASE("places of buckets with an upstream say which kind", "[cli]") {
  for (const char* text : {"s3://b/o/p", "aws://b/o/p"}) {
    const auto place = parse_object(text);
    REQUIRE(place.has_value());
    CHECK(place->provider == "aws");
    CHECK(place->display() == "s3://b/o/p");
    CHECK(place->request_target() == "/v1/objects/b/o/p?provider=aws");
    CHECK(place->bucket_target() == "/v1/buckets/b?provider=aws");
    CHECK(place->bucket_uname() == "aws/@#/b/");
    CHECK(place->with("q").display() == "s3://b/q");
  }
  CHECK(parse_place("ht://web")->display() == "ht://web");
  for (const char* text : {"gs://b/o", "gcp://b/o"}) {
    CHECK(parse_object(text)->display() == "gs://b/o");
    CHECK(parse_object(text)->request_target() == "/v1/objects/b/o?provider=gcp");
  }
}

TEST_CASE("places that cannot be are refused", "[cli]") {
  for (const char* text :
       {"", "/", "/b", "b/", "b", "b//o", "b/../o", "a b/o", "tarn://", "v1/o"}) {
    INFO(text);
    const auto place = parse_object(text);
    REQUIRE_FALSE(place.has_value());
    CHECK(exit_for(place.error().code) == Exit::usage);
  }
  CHECK(parse_object("oc://b/o").error().code == Errc::unsupported);
  CHECK_FALSE(parse_bucket("b/o").has_value());
}

TEST_CASE("sizes are readable", "[cli]") {
  CHECK(readable_size(0) == "0B");
  CHECK(readable_size(1023) == "1023B");
  CHECK(readable_size(1024) == "1.0KiB");
  CHECK(readable_size(50'000'000) == "47.7MiB");
  CHECK(readable_size(1024ULL * 1024 * 1024 * 150) == "150GiB");
  CHECK(readable_size(~0ULL) == "16.0EiB");
}

TEST_CASE("control characters do not reach a terminal", "[cli]") {
  CHECK(printable("a\nb\x1b[2J\x7f") == "a\\x0ab\\x1b[2J\\x7f");
  CHECK(printable("ä b/c") == "ä b/c");
  CHECK(printable("a\xc2\x9b"
                  "2Jb") == "a\\xc2\\x9b2Jb");  // CSI
}

TEST_CASE("a scratch file has its name when it is published, and is gone otherwise", "[cli]") {
  const test::TemporaryDirectory temporary;
  const fs::path& directory = temporary.path();
  {
    const auto file = ScratchFile::create(open_directory(directory), "x");
    REQUIRE(file.has_value());
    REQUIRE(write_all((*file)->fd(), std::as_bytes(std::span("abc", 3)), "x").has_value());
    CHECK_FALSE(fs::exists(directory / "x"));
  }
  CHECK(fs::is_empty(directory));
  write_file(directory / "x", "old");
  {
    const auto file = ScratchFile::create(open_directory(directory), "x");
    REQUIRE(file.has_value());
    REQUIRE(write_all((*file)->fd(), std::as_bytes(std::span("abc", 3)), "x").has_value());
    REQUIRE((*file)->restart().has_value());
    REQUIRE(write_all((*file)->fd(), std::as_bytes(std::span("de", 2)), "x").has_value());
    REQUIRE((*file)->publish().has_value());
  }
  CHECK(read_file(directory / "x") == "de");
}

TEST_CASE("export writes below its directory only", "[cli][export]") {
  const test::TemporaryDirectory temporary;
  const fs::path& directory = temporary.path();
  write_file(directory / "source", "hello");
  auto out = ExportDirectory::open(directory / "out");
  REQUIRE(out.has_value());
  const FoundFile file = found(directory / "source", "hello");
  for (const char* name : {"../x", "a/../../x", "/x", "..", ".", "", "a/", "a//b"}) {
    INFO(name);
    const auto written = out->write("b", name, file);
    REQUIRE_FALSE(written.has_value());
    CHECK(written.error().code == Errc::invalid_argument);
  }
  for (const char* folder : {"", ".", "..", "a/b", "/tmp"}) {
    INFO(folder);
    CHECK_FALSE(out->write(folder, "x", file).has_value());
  }
  CHECK(out->write("b", "a/x", file).value() == ExportDirectory::Outcome::written);
  CHECK(out->write("b", "a/x", file).value() == ExportDirectory::Outcome::already_there);
  CHECK(read_file(directory / "out/b/a/x") == "hello");
  // An object that would have to be a file and a directory at once.
  CHECK(out->write("b", "a", file).error().code == Errc::conflict);
  CHECK(out->write("b", "a/x/y", file).error().code == Errc::conflict);
}

TEST_CASE("export publishes verified bytes only", "[cli][export]") {
  const test::TemporaryDirectory temporary;
  const fs::path& directory = temporary.path();
  write_file(directory / "source", "hellO");
  auto out = ExportDirectory::open(directory / "out");
  REQUIRE(out.has_value());
  CHECK(out->write("b", "x", found(directory / "source", "hello")).error().code == Errc::corrupt);
  CHECK(out->write("b", "x", found(directory / "source", "hell")).error().code == Errc::corrupt);
  CHECK(out->write("b", "x", found(directory / "source", "hellOO")).error().code == Errc::corrupt);
  CHECK(fs::is_empty(directory / "out/b"));
}

TEST_CASE("the name of a part tells file and content, and fits a file system", "[cli][get]") {
  const Content content{11, "45ab6734b21e6968"};
  CHECK(partial_name("x.tar", content) == ".x.tar.45ab6734b21e6968-11.tarn-part");
  const std::string of_most_bytes(255, 'n');
  const std::vector<std::string> files{"x",
                                       "x.tar",
                                       "x.45ab6734b21e6968-11",
                                       ".x",
                                       "x.45ab6734b21e6968-11.tarn-part",
                                       of_most_bytes,
                                       of_most_bytes.substr(1) + "m"};
  const Content largest{UINT64_MAX, "ffffffffffffffff"};
  for (const std::string& file : files) {
    const std::string name = partial_name(file, largest);
    INFO(name);
    CHECK(name.size() <= 255);
    for (const std::string& other : files) CHECK(is_partial_of(name, other) == (file == other));
  }
  for (const char* other : {"", ".x.tarn-part", ".x.45ab6734b21e6968-.tarn-part", "x", ".x.",
                            ".x.45ab6734b21e696-11.tarn-part", ".x.45AB6734b21e6968-11.tarn-part"})
    CHECK_FALSE(is_partial_of(other, "x"));
}

TEST_CASE("a part is written by one program at a time", "[cli][get]") {
  const test::TemporaryDirectory temporary;
  const fs::path& directory = temporary.path();
  write_file(directory / "part", "hel");
  {
    auto first = ScratchFile::create_partial(open_directory(directory), "x", "part");
    REQUIRE(first.has_value());
    Xxh64Stream hash;
    CHECK((*first)->take_up(5, hash).value() == 3);
    CHECK(hash.digest() == xxh64("hel"));
    const auto second = ScratchFile::create_partial(open_directory(directory), "x", "part");
    REQUIRE(second.has_value());
    CHECK((*second)->keep().empty());  // it has a file of its own
    ScratchFile::remove_partial(open_directory(directory).get(), "part");
    CHECK(read_file(directory / "part") == "hel");
    CHECK((*first)->keep() == "part");
  }
  {
    const auto third = ScratchFile::create_partial(open_directory(directory), "x", "part");
    REQUIRE(third.has_value());
    Xxh64Stream hash;
    CHECK((*third)->take_up(2, hash).value() == 0);  // more than there can be: begun anew
    CHECK(read_file(directory / "part").empty());
  }
  CHECK(fs::is_empty(directory));
}

TEST_CASE("two that finish one file never show a short one", "[cli]") {
  const test::TemporaryDirectory temporary;
  const fs::path& directory = temporary.path();
  constexpr int kTimes = 2000;
  const std::string body(4096, 'x');
  std::atomic<int> failed = 0;
  std::atomic<int> running = 2;
  const auto write_it = [&] {
    for (int i = 0; i < kTimes; ++i) {
      const auto file = ScratchFile::create_partial(open_directory(directory), "x", "part");
      const bool ok = file && (*file)->restart() &&
                      write_all((*file)->fd(), std::as_bytes(std::span(body)), "x") &&
                      (*file)->publish();
      if (!ok) ++failed;
    }
    --running;
  };
  std::thread one(write_it);
  std::thread other(write_it);
  int shorter = 0;
  while (running > 0) {
    std::error_code absent;
    const auto size = fs::file_size(directory / "x", absent);
    if (!absent && size != body.size()) ++shorter;
  }
  one.join();
  other.join();
  CHECK(failed == 0);
  CHECK(shorter == 0);
}

TEST_CASE("a partial file that cannot be opened is left alone", "[cli]") {
  const test::TemporaryDirectory temporary;
  const fs::path& directory = temporary.path();
  write_file(directory / "elsewhere", "precious");
  fs::create_symlink("elsewhere", directory / "link");
  fs::create_directory(directory / "folder");
  for (const char* partial : {"link", "folder"}) {
    INFO(partial);
    const auto file = ScratchFile::create_partial(open_directory(directory), "x", partial);
    REQUIRE(file.has_value());
    CHECK((*file)->keep().empty());  // it has a file of its own
  }
  CHECK(read_file(directory / "elsewhere") == "precious");
}

TEST_CASE("patience ends at once when nobody has answered, and with its time", "[cli]") {
  const Error away{Errc::unavailable, "away"};
  test::TaskRunner run;
  Patience patience(std::chrono::minutes(1));
  CHECK_FALSE(run(patience.again(away)));
  http::ClientResponse answer;
  answer.status = 503;
  patience.heard(answer);
  CHECK(run(patience.again(away)));
  CHECK_FALSE(run(patience.again({Errc::object_not_found, "surely gone"})));
  answer.fields = {{"Retry-After", "1"}};
  Patience brief(std::chrono::milliseconds(500));
  brief.heard(answer);
  CHECK_FALSE(run(brief.again(away)));  // a second is more than what is left
}

}  // namespace cli_test
}  // namespace tarn::cli
