#include <limits>

#include <catch2/catch.hpp>

#include "common/http/message.h"

namespace tarn::http {
namespace http_message_test {

RequestHead with(std::initializer_list<Field> fields, Method method = Method::get) {
  RequestHead head;
  head.method = method;
  head.fields = fields;
  return head;
}

struct RangeRow {
  std::string_view value;
  std::uint64_t size;
  RangeVerdict verdict;
  std::uint64_t offset;
  std::uint64_t length;
};

constexpr std::string_view kEtag = "\"45ab6734b21e6968-11\"";
constexpr std::int64_t kModified = 784'111'777;  // Sun, 06 Nov 1994 08:49:37 GMT
constexpr const char* kModifiedText = "Sun, 06 Nov 1994 08:49:37 GMT";

TEST_CASE("fields are found without regard to case, the first one wins", "[http][message]") {
  const Fields fields{{"content-type", "a"}, {"Content-Type", "b"}};
  CHECK(find_field(fields, "CONTENT-TYPE") == "a");
  CHECK(find_field(fields, "Content").empty());
}

TEST_CASE("dates are written as RFC 9110 wants them", "[http][message]") {
  CHECK(http_date(kModified) == kModifiedText);
  CHECK(http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT");
  CHECK(http_date(1'709'164'800) == "Thu, 29 Feb 2024 00:00:00 GMT");
  CHECK(http_date(4'102'444'799) == "Thu, 31 Dec 2099 23:59:59 GMT");
}

TEST_CASE("all three date formats of RFC 9110 are read", "[http][message]") {
  CHECK(parse_http_date(kModifiedText) == kModified);
  CHECK(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT") == kModified);
  CHECK(parse_http_date("Sun Nov  6 08:49:37 1994") == kModified);
}

TEST_CASE("what is no date is not read as one", "[http][message]") {
  for (const char* text :
       {"", "yesterday", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Xxx 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, -6 Nov 1994 08:49:37 GMT", "784111777"}) {
    INFO(text);
    CHECK_FALSE(parse_http_date(text));
  }
}

TEST_CASE("every day of four centuries comes back", "[http][message]") {
  for (std::int64_t day = -1'000; day < 146'097; day += 17)
    CHECK(parse_http_date(http_date(day * 86'400 + 3'661)) == day * 86'400 + 3'661);
}

TEST_CASE("a Range is resolved against the size of the object", "[http][message]") {
  using enum RangeVerdict;
  const RangeRow rows[] = {
      {"", 100, whole, 0, 100},
      {"bytes=0-99", 100, partial, 0, 100},
      {"bytes=0-0", 100, partial, 0, 1},
      {"bytes=7-", 100, partial, 7, 93},
      {"bytes=99-", 100, partial, 99, 1},
      {"bytes=-5", 100, partial, 95, 5},
      {"bytes=-500", 100, partial, 0, 100},
      {"bytes=90-500", 100, partial, 90, 10},
      {"Bytes=1-2", 100, partial, 1, 2},
      {"bytes= 1-2 ,", 100, partial, 1, 2},
      {"bytes=0-99999999999999999999999", 100, partial, 0, 100},
      {"bytes=-99999999999999999999999", 100, partial, 0, 100},
      {"bytes=100-", 100, unsatisfiable, 0, 0},
      {"bytes=99999999999999999999999-", 100, unsatisfiable, 0, 0},
      {"bytes=-0", 100, unsatisfiable, 0, 0},
      {"bytes=0-", 0, unsatisfiable, 0, 0},
      {"bytes=-5", 0, whole, 0, 0},
      {"bytes=5-4", 100, unsatisfiable, 0, 0},
      {"bytes=", 100, unsatisfiable, 0, 0},
      {"bytes=-", 100, unsatisfiable, 0, 0},
      {"bytes=a-b", 100, unsatisfiable, 0, 0},
      {"bytes=1 - 2", 100, unsatisfiable, 0, 0},
      {"bytes=+1-2", 100, unsatisfiable, 0, 0},
      {"bytes=1-2-3", 100, unsatisfiable, 0, 0},
      {"bytes", 100, unsatisfiable, 0, 0},
      {"bytes=0-1,4-5", 100, multiple, 0, 100},
      {"bytes=0-1,-5", 100, multiple, 0, 100},
      {"seconds=1-2", 100, whole, 0, 100},
  };
  for (const auto& row : rows) {
    INFO("Range: " << row.value << " of " << row.size);
    const auto [verdict, range] = resolve_range(row.value, row.size);
    CHECK(verdict == row.verdict);
    CHECK(range.offset == row.offset);
    CHECK(range.length == row.length);
  }
}

TEST_CASE("a range never reaches beyond the largest object", "[http][message]") {
  const auto max = std::numeric_limits<std::uint64_t>::max();
  const auto [verdict, range] = resolve_range("bytes=18446744073709551614-", max);
  CHECK(verdict == RangeVerdict::partial);
  CHECK(range.offset == max - 1);
  CHECK(range.length == 1);
}

TEST_CASE("reads obey If-Match and If-None-Match", "[http][message]") {
  using enum Condition;
  const std::string etag(kEtag);
  const struct {
    const char* name;
    std::string value;
    Condition verdict;
  } rows[] = {
      {"If-Match", etag, proceed},
      {"If-Match", "*", proceed},
      {"If-Match", "\"x\", " + etag, proceed},
      {"If-Match", "45ab6734b21e6968-11", proceed},
      {"If-Match", "W/" + etag, failed},
      {"If-Match", "\"x\"", failed},
      {"If-Match", "", failed},
      {"If-None-Match", etag, not_modified},
      {"If-None-Match", "W/" + etag, not_modified},
      {"If-None-Match", "\"x\" ,\"y\"," + etag, not_modified},
      {"If-None-Match", "*", not_modified},
      {"If-None-Match", "\"x\"", proceed},
      {"If-None-Match", "\"x, " + etag, proceed},
  };
  for (const auto& row : rows) {
    INFO(row.name << ": " << row.value);
    CHECK(check_read_conditions(with({{row.name, row.value}}), kEtag, kModified) == row.verdict);
  }
}

TEST_CASE("a list of entity tags may come in several lines", "[http][message]") {
  const auto head = with({{"If-Match", "\"x\""}, {"if-match", std::string(kEtag)}});
  CHECK(check_read_conditions(head, kEtag, kModified) == Condition::proceed);
}

TEST_CASE("reads obey dates, and entity tags outweigh them", "[http][message]") {
  using enum Condition;
  const char* earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
  const auto check = [](std::initializer_list<Field> fields) {
    return check_read_conditions(with(fields), kEtag, kModified);
  };
  CHECK(check({{"If-Modified-Since", kModifiedText}}) == not_modified);
  CHECK(check({{"If-Modified-Since", earlier}}) == proceed);
  CHECK(check({{"If-Modified-Since", "no date"}}) == proceed);
  CHECK(check({{"If-Unmodified-Since", kModifiedText}}) == proceed);
  CHECK(check({{"If-Unmodified-Since", earlier}}) == failed);
  CHECK(check({{"If-None-Match", "\"x\""}, {"If-Modified-Since", kModifiedText}}) == proceed);
  CHECK(check({{"If-Match", "*"}, {"If-Unmodified-Since", earlier}}) == proceed);
  CHECK(check({{"If-Match", "*"}, {"If-None-Match", std::string(kEtag)}}) == not_modified);
}

TEST_CASE("writes obey If-Match, If-None-Match and If-Unmodified-Since", "[http][message]") {
  using enum Condition;
  const auto check = [](const char* name, std::string_view value, std::string_view etag) {
    const auto modified = etag.empty() ? std::nullopt : std::optional(kModified);
    return check_write_conditions(with({{name, std::string(value)}}, Method::put), etag, modified);
  };
  CHECK(check("If-None-Match", "*", "") == proceed);
  CHECK(check("If-None-Match", "*", kEtag) == failed);
  CHECK(check("If-None-Match", kEtag, kEtag) == failed);
  CHECK(check("If-None-Match", "\"x\"", kEtag) == proceed);
  CHECK(check("If-Match", "*", "") == failed);
  CHECK(check("If-Match", "*", kEtag) == proceed);
  CHECK(check("If-Match", kEtag, kEtag) == proceed);
  CHECK(check("If-Match", kEtag, "\"other\"") == failed);
  CHECK(check("If-Match", kEtag, "") == failed);
  CHECK(check_write_conditions(with({}, Method::put), kEtag, kModified) == proceed);
  CHECK(check("If-Unmodified-Since", kModifiedText, kEtag) == proceed);
  CHECK(check("If-Unmodified-Since", http_date(kModified - 1), kEtag) == failed);
  CHECK(check("If-Unmodified-Since", http_date(kModified - 1), "") == proceed);
  CHECK(check("If-Unmodified-Since", "no date", kEtag) == proceed);
  CHECK(check("If-Modified-Since", kModifiedText, kEtag) == proceed);
}

TEST_CASE("If-Range lets a range through for the same object only", "[http][message]") {
  const auto applies = [](std::string_view value) {
    return range_applies(with({{"If-Range", std::string(value)}}), kEtag, kModified);
  };
  CHECK(range_applies(with({}), kEtag, kModified));
  CHECK(applies(kEtag));
  CHECK(applies(kModifiedText));
  CHECK_FALSE(applies("\"x\""));
  CHECK_FALSE(applies("W/" + std::string(kEtag)));
  CHECK_FALSE(applies("*"));
  CHECK_FALSE(applies("Sun, 06 Nov 1994 08:49:38 GMT"));
}

}  // namespace http_message_test
}  // namespace tarn::http
