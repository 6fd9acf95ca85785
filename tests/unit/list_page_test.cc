#include "common/api/list_page.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/api/list_fields.h"
#include "common/api/msgpack.h"
#include "proxy/list/list_codec.h"

namespace list_page_test {

using namespace tarn;
using namespace tarn::api;
using nlohmann::json;

std::string msgpack(const json& value) {
  const auto bytes = json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

constexpr std::string_view kOddName = "dir/a \"b\"\\\x01\xC3\xA9";

ListEntry sample() {
  ListEntry out;
  out.name = kOddName;
  out.checksum = "45ab6734b21e6968";
  out.atime = "21 Nov 26 10:11 UTC";
  out.version = "3";
  out.location = "t[tAAAAAAAA]:mp[/srv/d1, sda, xfs]";
  out.custom = "[k:v]";
  out.size = 5'000'000'000;
  out.copies = 1;
  out.flags = kEntryPresent;
  return out;
}

ListEntry directory() {
  ListEntry out;
  out.name = "dir/";
  out.flags = kEntryPresent | kEntryDirectory;
  return out;
}

PackedPage packed(std::initializer_list<ListEntry> entries, bool more) {
  PagePacker packer;
  for (const ListEntry& entry : entries) packer.add(entry);
  return packer.take(more);
}

TEST_CASE("list page: what is packed is read back, field by field", "[api][list]") {
  const PackedPage page = packed({sample(), directory()}, true);
  REQUIRE(page.entries.size() == 2);
  CHECK(page.entries[0].name == kOddName);
  CHECK(page.entries[1].is_directory());
  const auto read = unpack_entry(page.entries[0].bytes);
  REQUIRE(read);
  CHECK(read->name == kOddName);
  CHECK(read->checksum == sample().checksum);
  CHECK(read->atime == sample().atime);
  CHECK(read->version == "3");
  CHECK(read->location == sample().location);
  CHECK(read->custom == "[k:v]");
  CHECK(read->size == 5'000'000'000);
  CHECK(read->copies == 1);
  CHECK(read->flags == 64);
  const auto folder = unpack_entry(page.entries[1].bytes);
  REQUIRE(folder);
  CHECK(folder->flags == 320);
  CHECK(folder->size == 0);
}

TEST_CASE("list page: a page that another node sent is read without the fields it adds",
          "[api][list]") {
  const auto page = decode_page(
      msgpack({{"entries",
                {{{"n", "a"}, {"s", 12}, {"later", {1, {{"n", "inner"}}, nullptr, 2.5, -7}}},
                 {{"later", "x"}, {"n", "dir/"}}}},
               {"more", true},
               {"later", {{"n", "other"}}}}));
  REQUIRE(page);
  CHECK(page->more);
  REQUIRE(page->entries.size() == 2);
  CHECK(page->entries[0].name == "a");
  CHECK(unpack_entry(page->entries[0].bytes)->size == 12);
  CHECK(page->entries[1].name == "dir/");
  CHECK_FALSE(decode_page(msgpack({{"entries", json::array()}, {"more", false}}))->more);
}

TEST_CASE("list page: a page survives the way between two nodes", "[api][list]") {
  const PackedPage page = packed({sample(), directory()}, true);
  const auto arrived = decode_page(encode_page(page.entries, page.more));
  REQUIRE(arrived);
  CHECK(arrived->more);
  REQUIRE(arrived->entries.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(arrived->entries[i].name == page.entries[i].name);
    CHECK(arrived->entries[i].bytes == page.entries[i].bytes);
  }
  const PackedPage moved = std::move(*decode_page(encode_page({}, false)));
  CHECK(moved.entries.empty());
}

TEST_CASE("list page: one that is damaged is an error, never a shorter list", "[api][list]") {
  const std::string whole =
      msgpack({{"entries", {{{"n", "a"}, {"s", 12}}, {{"n", "b"}}}}, {"more", false}});
  REQUIRE(decode_page(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(decode_page(whole.substr(0, length)));
  }
  CHECK_FALSE(decode_page(msgpack({{"entries", json::array()}})));
  CHECK_FALSE(decode_page(msgpack({{"entries", {{{"s", 1}}}}, {"more", false}})));
  CHECK_FALSE(decode_page(msgpack({{"entries", {1, 2}}, {"more", false}})));
  CHECK_FALSE(decode_page(whole + "x"));
  CHECK_FALSE(decode_page("\xDF\xFF\xFF\xFF\xFF"));
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += '\x91';
  CHECK_FALSE(decode_page("\x81\xA1x" + deep));
  CHECK_FALSE(unpack_entry("\x81\xA1n\x01"));
  CHECK_FALSE(unpack_entry(""));
}

TEST_CASE("list page: msgpack and JSON pages are what AIStore's clients expect", "[proxy][list]") {
  const PackedPage source = packed({sample(), directory()}, false);
  const proxy::ListPage page{.uuid = "abcdefghijkl", .token = "dir/", .entries = &source.entries};
  CHECK(json::from_msgpack(proxy::to_msgpack(page)) ==
        json{{"UUID", "abcdefghijkl"},
             {"ContinuationToken", "dir/"},
             {"Flags", 0},
             {"Entries",
              {{{"n", std::string(kOddName)},
                {"cs", "45ab6734b21e6968"},
                {"a", "21 Nov 26 10:11 UTC"},
                {"v", "3"},
                {"t", "t[tAAAAAAAA]:mp[/srv/d1, sda, xfs]"},
                {"m", "[k:v]"},
                {"s", 5'000'000'000},
                {"c", 1},
                {"f", 64}},
               {{"n", "dir/"}, {"f", 320}}}}});
  CHECK(json::parse(proxy::to_json_text(page).value()) ==
        json{{"uuid", "abcdefghijkl"},
             {"continuation_token", "dir/"},
             {"flags", 0},
             {"entries",
              {{{"name", std::string(kOddName)},
                {"checksum", "45ab6734b21e6968"},
                {"atime", "21 Nov 26 10:11 UTC"},
                {"version", "3"},
                {"location", "t[tAAAAAAAA]:mp[/srv/d1, sda, xfs]"},
                {"custom-md", "[k:v]"},
                {"size", "5000000000"},
                {"copies", 1},
                {"flags", 64}},
               {{"name", "dir/"}, {"flags", 320}}}}});
  const std::vector<PackedEntry> none;
  const proxy::ListPage empty{.uuid = "abcdefghijkl", .token = "", .entries = &none};
  CHECK(json::from_msgpack(proxy::to_msgpack(empty))["Entries"] == json::array());
  CHECK(json::parse(proxy::to_json_text(empty).value())["entries"] == json::array());
}

TEST_CASE("list page: pages of every size have the right lengths in front", "[api][list]") {
  for (const std::size_t count : {1U, 15U, 16U, 300U, 70'000U}) {
    PagePacker packer;
    std::string name;
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < count; ++i) {
      name = std::string(i % 400 + 1, 'n') + std::to_string(i);
      size = i * i * i;
      ListEntry entry;
      entry.name = name;
      entry.size = size;
      packer.add(entry);
    }
    const PackedPage page = packer.take(false);
    const proxy::ListPage sent{.uuid = "abcdefghijkl", .token = "", .entries = &page.entries};
    const json read = json::from_msgpack(proxy::to_msgpack(sent));
    REQUIRE(read["Entries"].size() == count);
    CHECK(read["Entries"].back()["n"] == name);
    CHECK(read["Entries"].back().value("s", std::uint64_t{0}) == size);
    CHECK(page.entries.back().name == name);
  }
}

TEST_CASE("msgpack: every number and length is read as it was written", "[api][msgpack]") {
  for (const std::uint64_t number :
       {0ULL, 127ULL, 128ULL, 255ULL, 256ULL, 65'535ULL, 65'536ULL, 4'294'967'295ULL,
        4'294'967'296ULL, 18'446'744'073'709'551'615ULL}) {
    std::string bytes;
    MsgpackWriter(bytes).number(number);
    CHECK(json::from_msgpack(bytes) == number);
    MsgpackReader reader(bytes);
    CHECK(reader.number() == number);
    CHECK((reader.ok() && reader.at_end()));
  }
  for (const std::size_t length : {0U, 31U, 32U, 255U, 256U, 65'535U, 65'536U}) {
    std::string bytes;
    MsgpackWriter(bytes).text(std::string(length, 'x'));
    MsgpackReader reader(bytes);
    CHECK(reader.text().size() == length);
    CHECK((reader.ok() && reader.at_end()));
  }
  for (const auto& value :
       {json(-5), json(3.25), json(nullptr), json(true), json("text"), json({1, {2, {3}}}),
        json::binary({1, 2, 3}), json::binary(std::vector<std::uint8_t>(300), 7),
        json::binary({1, 2, 3, 4}, 1)}) {
    const std::string bytes = msgpack(value);
    MsgpackReader reader(bytes);
    reader.skip();
    CAPTURE(value.dump());
    CHECK((reader.ok() && reader.at_end()));
  }
}

TEST_CASE("msgpack: signed numbers from 0 on are read, others are not", "[api][msgpack]") {
  MsgpackReader positive(std::string_view("\xD1\x01\x02", 3));
  CHECK(positive.number() == 258);
  CHECK(positive.ok());
  for (const std::string_view bytes : {"\xD0\xFF", "\xFF", "\xD1\x01", "\xA1x", ""}) {
    MsgpackReader reader(bytes);
    CHECK(reader.number() == 0);
    CHECK_FALSE(reader.ok());
  }
}

TEST_CASE("list fields: words and flags of AIStore", "[api][list]") {
  CHECK(parse_list_fields("name,size, checksum,version,atime,location,copies,custom,cached,ec")
            .value() == ListFields{.size = true,
                                   .checksum = true,
                                   .version = true,
                                   .atime = true,
                                   .location = true,
                                   .copies = true,
                                   .custom = true});
  CHECK(parse_list_fields("name").value() == ListFields{.size = false});
  CHECK(parse_list_fields("name,colour").error().message.find("'colour'") != std::string::npos);
  const ListFields all{.size = true, .custom = true, .etag = true, .last_modified = true};
  CHECK(parse_list_fields(to_text(all)).value() == all);
}

TEST_CASE("times are written in the formats of Go that clients name", "[api][list]") {
  constexpr std::int64_t kTime = 1'795'255'872'123'456'789;  // 2026-11-21 10:11:12 UTC
  CHECK(format_time(kTime, TimeFormat::rfc822) == "21 Nov 26 10:11 UTC");
  CHECK(format_time(kTime, TimeFormat::rfc1123) == "Sat, 21 Nov 2026 10:11:12 UTC");
  CHECK(format_time(kTime, TimeFormat::rfc3339) == "2026-11-21T10:11:12Z");
  CHECK(format_time(kTime, TimeFormat::rfc3339_nano) == "2026-11-21T10:11:12.123456789Z");
  CHECK(format_time(kTime, TimeFormat::stamp_milli) == "Nov 21 10:11:12.123");
  for (const auto format : {TimeFormat::rfc822, TimeFormat::rfc1123, TimeFormat::rfc3339,
                            TimeFormat::rfc3339_nano, TimeFormat::stamp_milli}) {
    CHECK(parse_time_format(layout_of(format)).value() == format);
    TimeTexts texts(format);
    for (const std::int64_t step :
         {0LL, 1LL, 999LL, 1'000'000LL, 1'000'000'000LL, 61'000'000'000LL})
      CHECK(texts.of(kTime + step) == format_time(kTime + step, format));
  }
  CHECK_FALSE(parse_time_format("YYYY"));
}

}  // namespace list_page_test
