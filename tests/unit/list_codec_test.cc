#include "proxy/list_codec.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace tarn;
using namespace tarn::proxy;
using nlohmann::json;

namespace {

std::string msgpack(const json& value) {
  const auto bytes = json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

ListEntry sample() {
  return {.name = "dir/a \"b\"\\\x01\xC3\xA9",
          .size = 5'000'000'000,
          .checksum = "45ab6734b21e6968",
          .version = 3,
          .atime_ns = 1'795'255'872'000'000'000,
          .location = "t[tAAAAAAAA]:/srv/d1"};
}

ListEntry directory() {
  ListEntry out;
  out.name = "dir/";
  return out;
}

ListRequest all_fields() {
  ListRequest request;
  request.fields = {.size = true,
                    .checksum = true,
                    .version = true,
                    .atime = true,
                    .location = true,
                    .copies = true};
  return request;
}

}  // namespace

TEST_CASE("a target's page is read", "[proxy][list]") {
  const auto page = decode_target_page(msgpack({{"entries",
                                                 {{{"n", "a"},
                                                   {"s", 12},
                                                   {"cs", "00ff"},
                                                   {"v", 2},
                                                   {"a", 123456789},
                                                   {"t", "t[x]:/d"},
                                                   {"later", {1, {{"n", "inner"}}, nullptr, 2.5}}},
                                                  {{"n", "dir/"}}}},
                                                {"more", true},
                                                {"later", {{"n", "other"}}}}));
  REQUIRE(page);
  CHECK(page->more);
  REQUIRE(page->entries.size() == 2);
  CHECK(page->entries[0] == ListEntry{.name = "a",
                                      .size = 12,
                                      .checksum = "00ff",
                                      .version = 2,
                                      .atime_ns = 123456789,
                                      .location = "t[x]:/d"});
  CHECK(page->entries[1].is_directory());
  CHECK_FALSE(decode_target_page(msgpack({{"entries", json::array()}, {"more", false}}))->more);
}

TEST_CASE("a target's page that is damaged is an error, never a shorter list", "[proxy][list]") {
  const std::string whole =
      msgpack({{"entries", {{{"n", "a"}, {"s", 12}}, {{"n", "b"}}}}, {"more", false}});
  REQUIRE(decode_target_page(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(decode_target_page(whole.substr(0, length)));
  }
  CHECK_FALSE(decode_target_page(msgpack({{"entries", json::array()}})));
  CHECK_FALSE(decode_target_page(msgpack({{"entries", {{{"s", 1}}}}, {"more", false}})));
  CHECK_FALSE(decode_target_page(whole + "x"));
}

TEST_CASE("msgpack pages are what a msgpack reader expects", "[proxy][list]") {
  const std::vector<ListEntry> entries{sample(), directory()};
  const ListPage page{.uuid = "abcdefghijkl", .token = "dir/", .entries = &entries};
  const json read = json::from_msgpack(to_msgpack(page, all_fields()));
  CHECK(read == json{{"UUID", "abcdefghijkl"},
                     {"ContinuationToken", "dir/"},
                     {"Flags", 0},
                     {"Entries",
                      {{{"n", sample().name},
                        {"cs", "45ab6734b21e6968"},
                        {"a", "21 Nov 26 10:11 UTC"},
                        {"v", "3"},
                        {"t", "t[tAAAAAAAA]:/srv/d1"},
                        {"s", 5'000'000'000},
                        {"c", 1},
                        {"f", 64}},
                       {{"n", "dir/"}, {"f", 320}}}}});
}

TEST_CASE("JSON pages are what AIStore's Go clients expect", "[proxy][list]") {
  const std::vector<ListEntry> entries{sample(), directory()};
  const ListPage page{.uuid = "abcdefghijkl", .token = "", .entries = &entries};
  const json read = json::parse(to_json_text(page, all_fields()));
  CHECK(read == json{{"uuid", "abcdefghijkl"},
                     {"continuation_token", ""},
                     {"flags", 0},
                     {"entries",
                      {{{"name", sample().name},
                        {"checksum", "45ab6734b21e6968"},
                        {"atime", "21 Nov 26 10:11 UTC"},
                        {"version", "3"},
                        {"location", "t[tAAAAAAAA]:/srv/d1"},
                        {"size", "5000000000"},
                        {"copies", 1},
                        {"flags", 64}},
                       {{"name", "dir/"}, {"flags", 320}}}}});
}

TEST_CASE("an empty page still has its id, and no entries", "[proxy][list]") {
  const std::vector<ListEntry> none;
  const ListPage page{.uuid = "abcdefghijkl", .token = "", .entries = &none};
  const json read = json::from_msgpack(to_msgpack(page, {}));
  CHECK(read["Entries"] == json::array());
  CHECK(read["UUID"] == "abcdefghijkl");
  CHECK(json::parse(to_json_text(page, {}))["entries"] == json::array());
}

TEST_CASE("pages of every size have the right lengths in front", "[proxy][list]") {
  for (const std::size_t count : {1U, 15U, 16U, 300U, 70'000U}) {
    std::vector<ListEntry> entries;
    for (std::size_t i = 0; i < count; ++i) {
      ListEntry entry;
      entry.name = std::string(i % 400 + 1, 'n') + std::to_string(i);
      entry.size = i * i * i;
      entries.push_back(entry);
    }
    const ListPage page{.uuid = "abcdefghijkl", .token = "", .entries = &entries};
    const json read = json::from_msgpack(to_msgpack(page, {}));
    REQUIRE(read["Entries"].size() == count);
    CHECK(read["Entries"].back()["n"] == entries.back().name);
    CHECK(read["Entries"].back().value("s", std::uint64_t{0}) == entries.back().size);
  }
}
