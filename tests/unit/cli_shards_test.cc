#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>

#include <catch2/catch.hpp>

#include "cli/shards/shard_cutter.h"
#include "cli/shards/shard_names.h"
#include "cli/shards/spool.h"
#include "cli/shards/tar_stream.h"
#include "tests/unit/run_task.h"

namespace tarn::cli {
namespace cli_shards_test {

/// A header block of a member, as ustar has it.
std::string header(const std::string& name, std::uint64_t size, char type = '0',
                   const std::string& link = "", std::string_view magic = "ustar") {
  std::string block(kTarBlock, '\0');
  name.copy(block.data(), 100);
  std::snprintf(block.data() + 100, 8, "%07o", 0644U);
  std::snprintf(block.data() + 124, 12, "%011llo", static_cast<unsigned long long>(size));
  std::snprintf(block.data() + 136, 12, "%011o", 0U);
  block[156] = type;
  link.copy(block.data() + 157, 100);
  magic.copy(block.data() + 257, magic.size());
  if (magic == "ustar") std::memcpy(block.data() + 263, "00", 2);
  std::memset(block.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  std::snprintf(block.data() + 148, 8, "%06o", sum);
  return block;
}

std::string filled_up(std::string data) {
  data.resize((data.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return data;
}

std::string file(const std::string& name, const std::string& data, char type = '0') {
  return header(name, data.size(), type) + filled_up(data);
}

std::string end_marker() { return ShardPlan::end_marker(); }

/// Gives out a string in chunks of odd sizes.
TarReader reader_of(std::string stream) {
  auto left = std::make_shared<std::string>(std::move(stream));
  auto step = std::make_shared<std::size_t>(1);
  return TarReader([left, step](std::span<std::byte> into) -> Result<std::size_t> {
    *step = *step % 700 + 37;
    const std::size_t got = std::min({into.size(), left->size(), *step});
    std::memcpy(into.data(), left->data(), got);
    left->erase(0, got);
    return got;
  });
}

struct Read {
  std::vector<TarMember> members;
  std::string bytes;  ///< heads and data
  std::string globals;
  std::string error;
};

Read read_all(const std::string& stream) {
  Read out;
  TarReader reader = reader_of(stream);
  std::string buffer(1000, '\0');
  while (true) {
    const auto member = reader.next();
    out.globals = reader.globals();
    if (!member) {
      out.error = member.error().message;
      return out;
    }
    if (!*member) return out;
    out.bytes += (*member)->head;
    out.members.push_back(**member);
    while (true) {
      const auto got = reader.read_data(std::as_writable_bytes(std::span(buffer)));
      if (!got) {
        out.error = got.error().message;
        return out;
      }
      if (*got == 0) break;
      out.bytes.append(buffer, 0, *got);
    }
  }
}

std::string pax(const std::string& key, const std::string& value, char type = 'x') {
  std::string record = " " + key + "=" + value + "\n";
  std::size_t length = record.size() + 1;
  while (std::to_string(length).size() + record.size() != length) ++length;
  return file("pax", std::to_string(length) + record, type);
}

/// Cuts a stream; the shards as their bytes.
std::vector<std::string> cut(const std::string& stream, CutLimits limits,
                             std::string* error = nullptr) {
  ShardCutter cutter(limits);
  TarReader reader = reader_of(stream);
  std::string spooled;
  std::string buffer(1000, '\0');
  std::vector<std::string> shards;
  const auto take = [&] {
    while (const auto plan = cutter.take()) {
      CHECK(plan->number == shards.size());
      std::string shard = plan->prologue;
      for (const SpooledRange& range : plan->ranges)
        shard += spooled.substr(range.offset, range.bytes);
      shard += end_marker();
      CHECK(shard.size() == plan->bytes);
      shards.push_back(shard);
    }
  };
  while (true) {
    const auto member = reader.next();
    REQUIRE(member.has_value());
    if (!*member) break;
    const std::uint64_t from = spooled.size();
    spooled += (*member)->head;
    while (const auto got = reader.read_data(std::as_writable_bytes(std::span(buffer))).value())
      spooled.append(buffer, 0, got);
    const Status added = cutter.add(**member, {from, spooled.size() - from}, reader.globals());
    if (!added) {
      REQUIRE(error != nullptr);
      *error = added.error().message;
      return shards;
    }
    take();
  }
  cutter.finish();
  take();
  return shards;
}

std::vector<std::string> names_in(const std::string& shard) {
  std::vector<std::string> names;
  const Read read = read_all(shard);
  CHECK(read.error.empty());
  names.reserve(read.members.size());
  for (const TarMember& member : read.members) names.push_back(member.name);
  return names;
}

TEST_CASE("tar: every byte of members comes back, with their full names", "[cli][tar]") {
  const std::string long_name(300, 'n');
  const std::string stream =
      file("a.txt", "hello") + header("d/", 0, '5') + header("l", 0, '2', "a.txt") +
      file("././@LongLink", long_name + '\0', 'L') + header("cut", 3, '0') + filled_up("abc") +
      pax("path", "p/ä.jpg") + file("other", std::string(1000, 'x')) + header("empty", 0);
  const Read read = read_all(stream + end_marker());
  CHECK(read.error.empty());
  REQUIRE(read.members.size() == 6);
  CHECK(read.bytes == stream);
  CHECK(read.members[0].name == "a.txt");
  CHECK(read.members[1].is_directory());
  CHECK(read.members[2].link == "a.txt");
  CHECK(read.members[3].name == long_name);
  CHECK(read.members[4].name == "p/ä.jpg");
  CHECK(read.members[5].data == 0);
}

TEST_CASE("tar: odd members have the bytes that they have", "[cli][tar]") {
  // Sizes: one that only pax can say, one in base 256. Also a sparse file with one more block of
  // its map, and a character device that claims a size.
  const std::string by_pax = pax("size", "600") + header("big", 0) + std::string(1024, 'b');
  std::string binary = header("bin", 0);
  binary[124] = static_cast<char>(0x80);
  std::memset(binary.data() + 125, 0, 11);
  binary[135] = 5;
  std::memset(binary.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : binary) sum += static_cast<unsigned char>(c);
  std::snprintf(binary.data() + 148, 8, "%06o", sum);
  std::string sparse = header("sparse", 512, 'S', "", "ustar  ");
  sparse[482] = 1;
  std::memset(sparse.data() + 148, ' ', 8);
  sum = 0;
  for (const char c : sparse) sum += static_cast<unsigned char>(c);
  std::snprintf(sparse.data() + 148, 8, "%06o", sum);
  const std::string stream = by_pax + binary + filled_up("12345") + sparse +
                             std::string(512, '\0') + std::string(512, 's') +
                             header("dev", 99, '3') + file("last", "x");
  const Read read = read_all(stream + end_marker());
  CHECK(read.error.empty());
  REQUIRE(read.members.size() == 5);
  CHECK(read.bytes == stream);
  CHECK(read.members[0].data == 1024);
  CHECK(read.members[1].data == 512);
  CHECK(read.members[2].head.size() == 1024);
  CHECK(read.members[4].name == "last");
}

TEST_CASE("tar: what is cut short or no tar is refused", "[cli][tar]") {
  const std::string one = file("a.txt", "hello");
  CHECK(read_all("").error.find("empty") != std::string::npos);
  CHECK(read_all(one).error.find("without an end marker") != std::string::npos);
  CHECK(read_all(one.substr(0, 700)).error.find("cut short") != std::string::npos);
  CHECK(read_all(one.substr(0, 100)).error.find("cut short") != std::string::npos);
  CHECK(read_all(pax("path", "x")).error.find("cut short") != std::string::npos);
  for (const std::string magic :
       {"\x1f\x8b", "\x28\xb5\x2f\xfd", "\xfd\x37zXZ", "BZh9", "\x04\x22\x4d\x18"})
    for (const std::size_t bytes : {100U, 600U})
      CHECK(read_all(magic + std::string(bytes, 'z')).error.find("compressed") !=
            std::string::npos);
  CHECK(read_all(std::string(512, 'z')).error.find("no tar header") != std::string::npos);
  CHECK(read_all(header("m", 0, 'M') + end_marker()).error.find("multi-volume") !=
        std::string::npos);
  CHECK(read_all(pax("path", "x", 'g') + end_marker()).error.find("global") != std::string::npos);
  CHECK(read_all(one + end_marker()).error.empty());
  CHECK(read_all(end_marker()).members.empty());
  CHECK(read_all(one + end_marker() + one + end_marker()).members.size() == 2);
}

TEST_CASE("samples are files of one directory with one name up to the first dot", "[cli][tar]") {
  CHECK(sample_key("d/a.cls.txt") == "d/a");
  CHECK(sample_key("d/a") == "d/a");
  CHECK(sample_key("d.x/a.jpg") == "d.x/a");
  CHECK(sample_key("a.jpg") == "a");
  CHECK(sample_key("d/.hidden") == "d/.hidden");
}

TEST_CASE("shards: a sample is never split, and none is too large but by one sample",
          "[cli][tar]") {
  std::string stream;
  for (int i = 0; i < 20; ++i)
    for (const char* ending : {".jpg", ".seg.png", ".json"})
      stream += file("d/" + std::to_string(i) + ending, std::string(500, 'x'));
  stream += file("d/huge.bin", std::string(20'000, 'h'));
  const CutLimits limits{.shard_bytes_max = 8192};
  const auto shards = cut(stream + end_marker(), limits);
  std::map<std::string, std::size_t> shard_of;
  std::string joined;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto names = names_in(shards[i]);
    for (const std::string& name : names) {
      const auto [known, fresh] = shard_of.emplace(std::string(sample_key(name)), i);
      CHECK(known->second == i);
    }
    const bool one_huge = names.size() == 1 && names.front() == "d/huge.bin";
    CHECK((shards[i].size() <= 8192 || one_huge));
    joined += shards[i].substr(0, shards[i].size() - end_marker().size());
  }
  CHECK(joined == stream);
  CHECK(shards.size() == 11);  // two samples of 3 KiB each, and the huge one
  CHECK(cut(stream + end_marker(), limits) == shards);
}

TEST_CASE("shards: files of a sample that lie apart are brought together", "[cli][tar]") {
  std::vector<std::string> files;
  for (int i = 0; i < 30; ++i)
    for (const char* ending : {".jpg", ".json"})
      files.push_back(file("d/" + std::to_string(i) + ending, std::to_string(i) + ending));
  std::mt19937 random(20261121);
  std::shuffle(files.begin(), files.end(), random);
  std::string stream = header("d/", 0, '5');
  for (const std::string& each : files) stream += each;
  const auto shards = cut(stream + end_marker(), {.shard_bytes_max = 8192});
  std::size_t members = 0;
  std::string last;
  std::set<std::string> seen;
  for (const std::string& shard : shards)
    for (const std::string& name : names_in(shard)) {
      ++members;
      const std::string key(sample_key(name));
      if (key != last) CHECK(seen.insert(key).second);
      last = key;
    }
  CHECK(members == 61);
  // Holding members back does not change the result.
  CHECK(cut(stream + end_marker(), {.shard_bytes_max = 8192, .hold_bytes = 1U << 20U}) == shards);
  std::string error;
  cut(stream + end_marker(), {.shard_bytes_max = 8192, .hold_bytes = 4096}, &error);
  CHECK(error.find("--sort=name") != std::string::npos);
}

TEST_CASE("shards: global headers hold in every shard, and only for what is behind them",
          "[cli][tar]") {
  const std::string one = pax("comment", "one", 'g');
  const std::string two = pax("comment", "two", 'g');
  std::string stream = one;
  for (int i = 0; i < 4; ++i) stream += file(std::to_string(i) + ".x", "x");
  stream += two + file("4.x", "x") + end_marker();
  const auto shards = cut(stream, {.shard_bytes_max = 5000});
  REQUIRE(shards.size() == 3);
  CHECK(shards[0].starts_with(one));
  CHECK(shards[1].starts_with(one));
  CHECK(shards[2].starts_with(one + two));
  CHECK(read_all(shards[2]).globals == one + two);
}

TEST_CASE("shards: a hard link must lie with its file", "[cli][tar]") {
  const std::string same = file("a.jpg", "x") + header("a.png", 0, '1', "a.jpg");
  CHECK(cut(same + end_marker(), {}).size() == 1);
  std::string error;
  cut(file("a.jpg", "x") + header("b.jpg", 0, '1', "a.jpg") + end_marker(), {}, &error);
  CHECK(error.find("--hard-dereference") != std::string::npos);
}

TEST_CASE("shards: a number of samples is a limit, too", "[cli][tar]") {
  std::string stream = header("d/", 0, '5');
  for (int i = 0; i < 7; ++i) stream += file("d/" + std::to_string(i) + ".x", "x");
  const auto shards = cut(stream + end_marker(), {.samples_max = 3});
  REQUIRE(shards.size() == 3);
  CHECK(names_in(shards[0]).size() == 4);
  CHECK(names_in(shards[2]).size() == 1);
}

TEST_CASE("spool: a shard's body is read as often as it takes, then its room is free",
          "[cli][tar]") {
  const test::TemporaryDirectory temporary;
  const auto spool = Spool::create(temporary.path());
  REQUIRE(spool.has_value());
  std::string stream(70U << 20U, '\0');  // more than one file of it
  for (std::size_t i = 0; i < stream.size(); ++i) stream[i] = static_cast<char>(i * 7 % 251);
  REQUIRE((*spool)->write(std::as_bytes(std::span(stream))).has_value());
  CHECK(std::filesystem::is_empty(temporary.path()));
  ShardPlan plan;
  plan.prologue = "globals";
  plan.ranges = {{100, 5}, {(64U << 20U) - 3, 6}, {0, 10}};
  plan.bytes = 7 + 21 + 1024;
  ShardBody body(**spool, plan);
  const std::string wanted = "globals" + stream.substr(100, 5) +
                             stream.substr((64U << 20U) - 3, 6) + stream.substr(0, 10) +
                             end_marker();
  for (int i = 0; i < 2; ++i) {
    std::string came;
    std::string buffer(9, '\0');
    while (const auto got = body.read(std::as_writable_bytes(std::span(buffer))).value())
      came.append(buffer, 0, got);
    CHECK(came == wanted);
    CHECK(body.rewind());
  }
  (*spool)->release({0, 64U << 20U});
  CHECK_FALSE((*spool)->read(0, std::as_writable_bytes(std::span(stream).first(1))).has_value());
}

TEST_CASE("shard names: URLs and names, numbered or listed", "[cli][templates]") {
  const auto plain = ShardNames::parse("http://h:8081/dataset-%06d.tar");
  REQUIRE(plain.has_value());
  CHECK(plain->endpoint() == "http://h:8081");
  CHECK(plain->place(3)->request_target() == "/dataset-000003.tar");
  const auto in_bucket = ShardNames::parse("http://h/b/d/x y-%06d.tar");
  REQUIRE(in_bucket.has_value());
  CHECK(in_bucket->endpoint() == "http://h");
  CHECK(in_bucket->place(0)->request_target() == "/v1/objects/b/d/x%20y-000000.tar");
  CHECK(ShardNames::parse("http://h/v1/objects/b/x-%d")->place(1)->display() == "b/x-1");
  CHECK(ShardNames::parse("http://h/ais/b/x-%d")->place(1)->display() == "b/x-1");
  CHECK(ShardNames::parse("http://h/gs/b/x-%d")->place(1)->display() == "gs://b/x-1");
  const auto listed = ShardNames::parse("b/x-@02");
  REQUIRE(listed.has_value());
  CHECK(listed->endpoint().empty());
  CHECK(listed->place(1)->display() == "b/x-01");
  CHECK_FALSE(listed->place(2).has_value());
  for (const char* wrong : {"http://h/x.tar", "b/x.tar", "x", "http://h/", "http://h",
                            "https://h/x-%d", "http://h/b/../x-%d"}) {
    INFO(wrong);
    CHECK_FALSE(ShardNames::parse(wrong).has_value());
  }
}

}  // namespace cli_shards_test
}  // namespace tarn::cli
