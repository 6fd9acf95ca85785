#include "common/base/settings.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace settings_test {

using namespace tarn;
using namespace std::chrono_literals;

/// One variable of each kind, bound.
struct Sample {
  std::chrono::milliseconds idle = 75s;
  std::uint64_t rate = 1024;
  std::uint64_t threads = 8;
  std::string level = "info";
  std::string bucket = "data";
  Settings settings;

  Sample() {
    settings.duration("http.idle", idle, 1s, 1h, "between requests");
    settings.size("http.rate", rate, 1, 1U << 30U, "least rate");
    settings.integer("threads", threads, 1, 64, "threads", "of a drive");
    settings.word("log.level", level, {"debug", "info", "warn"}, "how much is logged");
    const auto parse = [this](std::string_view value) -> Status {
      if (value.empty()) return fail(Errc::invalid_argument, "empty, want a name");
      bucket = value;
      return {};
    };
    settings.custom("bucket", bucket, "name", parse, "the default one");
  }
  std::string complaint(std::vector<std::string> assignments) {
    const auto status = settings.apply(assignments);
    return status ? "" : status.error().message;
  }
};

TEST_CASE("a duration is whole numbers with falling units", "[base][settings]") {
  CHECK(*parse_duration("75s") == 75s);
  CHECK(*parse_duration("500ms") == 500ms);
  CHECK(*parse_duration("1m30s") == 90s);
  CHECK(*parse_duration("2h") == 2h);
  CHECK(*parse_duration("1h2m3s4ms") == 3'723'004ms);
  CHECK(*parse_duration("0s") == 0ms);
  for (const char* bad : {"", "s", "5", "5 s", " 5s", "-5s", "1.5s", "30s1m", "1s1s", "5d", "5S",
                          "99999999999999999999s", "9223372036854775807s"})
    CHECK_FALSE(parse_duration(bad));
}

TEST_CASE("a size is bytes or a binary multiple, never KB", "[base][settings]") {
  CHECK(*parse_size("0") == 0);
  CHECK(*parse_size("1024") == 1024);
  CHECK(*parse_size("512B") == 512);
  CHECK(*parse_size("64KiB") == 65536);
  CHECK(*parse_size("256MiB") == 268435456);
  CHECK(*parse_size("2TiB") == 2199023255552);
  for (const char* bad : {"", "KiB", "1KB", "1M", "1kib", "1KiB5B", "-1", "1.5GiB", "9999999999TiB",
                          "18446744073709551615", "1 KiB"})
    CHECK_FALSE(parse_size(bad));
}

TEST_CASE("durations and sizes are printed as they can be read back", "[base][settings]") {
  for (const char* text : {"75s", "0s", "500ms", "1m30s", "1h1ms"}) {
    const auto value = *parse_duration(text);
    CHECK(*parse_duration(duration_text(value)) == value);
  }
  CHECK(duration_text(75s) == "75s");
  CHECK(duration_text(90s) == "90s");
  CHECK(duration_text(120s) == "2m");
  CHECK(duration_text(0s) == "0s");
  CHECK(size_text(0) == "0B");
  CHECK(size_text(1000) == "1000B");
  CHECK(size_text(1024) == "1KiB");
  CHECK(size_text(3ULL << 20U) == "3MiB");
}

TEST_CASE("settings write the variables they are bound to", "[base][settings]") {
  Sample sample;
  CHECK(sample.complaint({"http.idle=1m", "http.rate=2KiB", "threads=4", "log.level=debug",
                          "bucket=a=b"}) == "");
  CHECK(sample.idle == 60s);
  CHECK(sample.rate == 2048);
  CHECK(sample.threads == 4);
  CHECK(sample.level == "debug");
  CHECK(sample.bucket == "a=b");
}

TEST_CASE("the last of two values of a key counts", "[base][settings]") {
  Sample sample;
  CHECK(sample.complaint({"threads=4", "threads=5"}) == "");
  CHECK(sample.threads == 5);
}

TEST_CASE("a former name of a key is accepted and not shown", "[base][settings]") {
  std::uint64_t rate = 1;
  Settings settings;
  settings.size("rate.min", rate, 0, 1024, "how fast");
  settings.former_name("floor", "rate.min");
  const std::vector<std::string> given{"floor=512"};
  CHECK(settings.apply(given));
  CHECK(rate == 512);
  CHECK(settings.table().find("floor") == std::string::npos);
  const std::vector<std::string> wrong{"floor=2KiB"};
  CHECK(settings.apply(wrong).error().message ==
        "rate.min: 2KiB is not between 0B and 1KiB (default 1B)");
}

TEST_CASE("every problem is named, with what was wrong and what is wanted", "[base][settings]") {
  Sample sample;
  CHECK(sample.complaint({"http.idle=2h"}) ==
        "http.idle: 2h is not between 1s and 1h (default 75s)");
  CHECK(sample.complaint({"threads"}) == "threads: no value, want threads=VALUE (default 8)");
  CHECK(sample.complaint({"bucket="}) == "bucket: empty, want a name (default data)");
  const std::string all = sample.complaint(
      {"http.idle=soon", "threads=65", "http.rate=1KB", "log.level=loud", "nonsense=1", "=1"});
  CHECK(all ==
        "http.idle: 'soon' is no duration such as 75s, 500ms or 1m30s (default 75s)\n"
        "threads: '65' is no whole number between 1 and 64 (default 8)\n"
        "http.rate: '1KB' is no size such as 1024, 64KiB, 256MiB or 1GiB (default 1KiB)\n"
        "log.level: 'loud' is not debug, info or warn (default info)\n"
        "nonsense: unknown setting, want http.idle, http.rate, threads, log.level or bucket\n"
        ": unknown setting, want http.idle, http.rate, threads, log.level or bucket");
}

TEST_CASE("the table shows the defaults, also after values were set", "[base][settings]") {
  Sample sample;
  REQUIRE(sample.complaint({"threads=4"}) == "");
  const std::string table = sample.settings.table();
  CHECK_THAT(table, Catch::Contains("| `threads` | `8` | threads | of a drive |\n"));
  CHECK_THAT(table, Catch::Contains("| `log.level` | `info` | debug, info or warn |"));
}

}  // namespace settings_test
