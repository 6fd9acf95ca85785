#include "common/base/read_json.h"

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace read_json_test {

using namespace tarn;
using nlohmann::json;

TEST_CASE("JSON: what is read of it, or an error that names its subject", "[base]") {
  const json value{{"number", 7}};
  const auto number = read_json(Errc::corrupt, "a record", [&] { return value.at("number"); });
  REQUIRE(number.has_value());
  CHECK(*number == 7);
  const auto missing = read_json(Errc::corrupt, "a record", [&] { return value.at("name"); });
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.error().code == Errc::corrupt);
  CHECK(missing.error().message.starts_with("a record: "));
  CHECK(missing.error().message.find("name") != std::string::npos);
}

TEST_CASE("JSON: errors of the reader itself stay as they are", "[base]") {
  const auto refused = read_json(Errc::corrupt, "a record",
                                 []() -> Result<int> { return fail(Errc::no_space, "full"); });
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::no_space);
  CHECK(refused.error().message == "full");
  const Status nothing = read_json(Errc::corrupt, "a record", [] {});
  CHECK(nothing.has_value());
}

TEST_CASE("JSON: values that a reader refuses, and exceptions that are none of its own", "[base]") {
  const json value{{"number", "seven"}};
  const auto refused = read_json(Errc::corrupt, "a record", [&]() -> int {
    throw std::invalid_argument(value.at("number").get<std::string>() + " is no number");
  });
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::corrupt);
  CHECK(refused.error().message == "a record: seven is no number");
  const auto read = [&] { return std::stoull(value.at("number").get<std::string>()); };
  CHECK_FALSE(read_json(Errc::corrupt, "a record", read).has_value());
  const auto exhausted = []() -> int { throw std::bad_alloc(); };
  CHECK_THROWS_AS(static_cast<void>(read_json(Errc::corrupt, "a record", exhausted)),
                  std::bad_alloc);
}

TEST_CASE("JSON: text of the wanted type, and any other text", "[base]") {
  const auto list = parse_json<std::vector<int>>("[1,2]", Errc::io, "a list");
  REQUIRE(list.has_value());
  CHECK(*list == std::vector<int>{1, 2});
  for (const char* text : {"", "[1,", "{\"a\":1}", "[\"a\"]", "null"}) {
    INFO(text);
    const auto wrong = parse_json<std::vector<int>>(text, Errc::io, "a list");
    REQUIRE_FALSE(wrong.has_value());
    CHECK(wrong.error().code == Errc::io);
    CHECK(wrong.error().message.starts_with("a list: "));
  }
}

}  // namespace read_json_test
