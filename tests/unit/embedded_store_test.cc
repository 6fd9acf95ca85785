#include "common/cluster/store/embedded_store.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include <catch2/catch.hpp>

#include "common/base/fail_points.h"
#include "common/cluster/store/meta_database.h"
#include "common/cluster/store/meta_model.h"
#include "tests/conformance/meta_store_checks.h"
#include "tests/unit/run_task.h"
#include "tests/unit/seed.h"

namespace tarn::cluster {
namespace embedded_store_test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::eventually;
using test::TaskRunner;
using test::TemporaryDirectory;

Transaction put_of(std::string key, std::string value, LeaseId lease = 0) {
  Transaction out;
  out.puts.push_back({std::move(key), std::move(value), lease});
  return out;
}

RangeRequest everything() { return {std::string(1, '\0'), std::string(1, '\0'), 0}; }

std::string text_of(const std::vector<KeyValue>& items) {
  std::string out;
  for (const KeyValue& item : items)
    out += item.key + "=" + item.value + "@" + std::to_string(item.mod_revision) + " ";
  return out;
}

/// A store and the loop that asks it.
struct Store {
  explicit Store(const fs::path& directory, Clock& clock = system_clock())
      : store(EmbeddedStore::open(directory, clock).value()) {}

  Result<TransactionResult> commit(Transaction transaction) {
    return run(store->commit(std::move(transaction)));
  }
  std::string text() { return text_of(run(store->range(everything()))->items); }

  TaskRunner run;
  std::unique_ptr<EmbeddedStore> store;
};

TEST_CASE("Embedded store: keeps what Tarn builds on", "[cluster][meta]") {
  const TemporaryDirectory directory;
  Store fixture(directory.path());
  int number = 0;
  for (const auto& check : conformance::meta_store_checks()) {
    // Those that wait for leases run against every store in tests/integration.
    if (check.name.find("lease") != std::string_view::npos) continue;
    const std::string prefix = "/check/" + std::to_string(++number) + "/";
    conformance::Subject subject{*fixture.store, prefix, {}};
    subject.compact = [&](Revision) {
      return conformance::compact_by_writing(*fixture.store, prefix,
                                             MetaModel::kHistoryEventsMax + 1);
    };
    INFO(check.name);
    CHECK_NOTHROW(fixture.run(check.run(subject)));
  }
}

TEST_CASE("Embedded store: a restart changes nothing, and leases begin a new term",
          "[cluster][meta]") {
  const TemporaryDirectory directory;
  ManualClock clock;
  std::string before;
  LeaseId lease = 0;
  Revision revision = 0;
  {
    Store first(directory.path(), clock);
    REQUIRE(first.commit(put_of("a", "1")));
    lease = first.run(first.store->grant(10s)).value();
    REQUIRE(first.commit(put_of("mine", "x", lease)));
    REQUIRE(first.commit(put_of("a", "2")));
    clock.advance(9s);
    before = first.text();
    revision = first.run(first.store->range(everything()))->revision;
  }
  clock.advance(1h);
  Store second(directory.path(), clock);
  CHECK(second.text() == before);
  CHECK(second.run(second.store->range(everything()))->revision == revision);
  CHECK(second.run(second.store->time_to_live(lease))->left == 10s);
  const auto next = second.commit(put_of("b", "1"));
  CHECK(next->revision == revision + 1);
  clock.advance(10s);
  CHECK(eventually([&] { return second.text().find("mine") == std::string::npos; }));
  CHECK(second.run(second.store->keep_alive(lease)).error().code == Errc::not_found);
}

TEST_CASE("Embedded store: a lease ends by the clock and not before", "[cluster][meta]") {
  const TemporaryDirectory directory;
  ManualClock clock;
  Store fixture(directory.path(), clock);
  const LeaseId lease = fixture.run(fixture.store->grant(4s)).value();
  REQUIRE(fixture.commit(put_of("live", "x", lease)));
  for (int i = 0; i < 10; ++i) {
    clock.advance(3900ms);
    REQUIRE(fixture.run(fixture.store->keep_alive(lease)) == 4s);
  }
  clock.advance(4s);
  // The lease ends at once for all callers, whenever the key is deleted.
  CHECK(fixture.run(fixture.store->keep_alive(lease)).error().code == Errc::not_found);
  CHECK(eventually([&] { return fixture.text().empty(); }));
  CHECK(fixture.run(fixture.store->grant(0s)).error().code == Errc::invalid_argument);
}

TEST_CASE("Embedded store: exactly one process has it open", "[cluster][meta]") {
  const TemporaryDirectory directory;
  const Store first(directory.path());
  const auto second = EmbeddedStore::open(directory.path(), system_clock());
  REQUIRE_FALSE(second);
  CHECK(second.error().code == Errc::conflict);
  CHECK(second.error().message.find("exactly one proxy runs with the embedded store") !=
        std::string::npos);
}

TEST_CASE("Embedded store: watches end with the store, or when told to", "[cluster][meta]") {
  const TemporaryDirectory directory;
  Store fixture(directory.path());
  const auto watching = [&] {
    return asio::co_spawn(fixture.run.executor(),
                          fixture.store->watch("x", 0, [](const WatchBatch&) { return true; }),
                          asio::use_future);
  };
  auto first = watching();
  CHECK(first.wait_for(50ms) == std::future_status::timeout);
  fixture.store->end_watches();
  CHECK(first.get().error().code == Errc::unavailable);
  CHECK(watching().get().error().code == Errc::unavailable);
  CHECK(fixture.commit(put_of("a", "1")));
}

TEST_CASE("Embedded store: after a failed write the disk tells what became of it",
          "[cluster][meta]") {
  struct Case {
    const char* point;
    bool done;
  };
  for (const Case& one : {Case{"meta.before_commit", false}, Case{"meta.before_mark", true},
                          Case{"meta.before_reply", true}}) {
    INFO(one.point);
    const TemporaryDirectory directory;
    Store fixture(directory.path());
    REQUIRE(fixture.commit(put_of("a", "1")));
    fail_point::set(std::string(one.point) + "=error@1");
    const auto begun = std::chrono::steady_clock::now();
    const auto failed = fixture.commit(put_of("a", "2"));
    fail_point::set("");
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == Errc::unavailable);
    // Nothing else gets in between: the next change waits for a new look at the disk, a second on.
    const auto next = fixture.commit(put_of("b", "1"));
    if (next)
      CHECK(std::chrono::steady_clock::now() - begun >= 1s);
    else
      CHECK(next.error().code == Errc::unavailable);
    CHECK(eventually([&] { return fixture.commit(put_of("b", "1")).has_value(); }));
    CHECK((fixture.text().find("a=2") != std::string::npos) == one.done);
  }
}

/// The bytes of every file below a directory, but those of the lock, which says nothing.
std::map<std::string, std::string> files_of(const fs::path& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file() || entry.path().filename() == "lock") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    out[fs::relative(entry.path(), directory).string()] =
        std::string(std::istreambuf_iterator<char>(in), {});
  }
  return out;
}

void write_files(const fs::path& directory, const std::map<std::string, std::string>& files) {
  fs::remove_all(directory);
  fs::create_directories(directory / "db");
  for (const auto& [name, bytes] : files)
    std::ofstream(directory / name, std::ios::binary) << bytes;
}

/// The name of the newest log: the one that commits are appended to.
std::string newest_log(const std::map<std::string, std::string>& files) {
  std::string out;
  for (const auto& [name, bytes] : files)
    if (name.ends_with(".log")) out = std::max(out, name);
  return out;
}

std::string contents_text(const fs::path& directory) {
  return text_of(MetaDatabase::open(directory).value()->take_contents().items);
}

TEST_CASE("Embedded store: a torn last commit that nobody was told of is dropped",
          "[cluster][meta]") {
  const TemporaryDirectory directory;
  const TemporaryDirectory copy;
  std::map<std::string, std::string> before;
  std::map<std::string, std::string> after;
  std::string text_before;
  std::string text_after;
  {
    Store fixture(directory.path());
    for (int i = 0; i < 5; ++i) REQUIRE(fixture.commit(put_of("k" + std::to_string(i), "value")));
    before = files_of(directory.path());
    text_before = fixture.text();
    REQUIRE(fixture.commit(put_of("last", std::string(500, 'v'))));
    after = files_of(directory.path());
    text_after = fixture.text();
  }
  const std::string log = newest_log(after);
  const std::size_t keep = before.at(log).size();
  const std::size_t whole = after.at(log).size();
  REQUIRE(whole > keep + 500);

  for (std::size_t size = keep; size <= whole; size += 37) {
    INFO("cut at " << size << " of " << whole);
    auto torn = after;
    torn["acknowledged"] = before.at("acknowledged");
    torn[log].resize(size);
    write_files(copy.path() / "s", torn);
    CHECK(contents_text(copy.path() / "s") == text_before);
  }
  SECTION("also when pages of it came in another order") {
    auto torn = after;
    torn["acknowledged"] = before.at("acknowledged");
    for (std::size_t i = keep + 20; i < keep + 100; ++i) torn[log][i] = '\0';
    write_files(copy.path() / "s", torn);
    CHECK(contents_text(copy.path() / "s") == text_before);
  }
  SECTION("one that is whole counts, whether or not somebody was told") {
    auto whole_log = after;
    whole_log["acknowledged"] = before.at("acknowledged");
    write_files(copy.path() / "s", whole_log);
    CHECK(contents_text(copy.path() / "s") == text_after);
  }
  SECTION("one that was acknowledged is missed, and nothing is touched") {
    auto torn = after;
    torn[log].resize(whole - 1);
    write_files(copy.path() / "s", torn);
    const auto opened = MetaDatabase::open(copy.path() / "s");
    REQUIRE_FALSE(opened);
    CHECK(opened.error().code == Errc::corrupt);
    CHECK(opened.error().message.find("tarn cluster recover") != std::string::npos);
    CHECK(opened.error().message.find((copy.path() / "s/db").string()) != std::string::npos);
    CHECK(files_of(copy.path() / "s") == torn);
  }
}

/// A store as a machine leaves it that loses its power: with table files of earlier lives, and a
/// log.
std::map<std::string, std::string> lived_in_store(const fs::path& directory, std::string& text) {
  for (int life = 0; life < 3; ++life) {
    Store fixture(directory);
    for (int i = 0; i < 20; ++i)
      REQUIRE(fixture.commit(put_of("k" + std::to_string(i % 7), std::to_string(life * 100 + i))));
    text = fixture.text();
    if (life == 2) return files_of(directory);
  }
  return {};
}

/// True for the bit by which a block of a table file says that it has a hash index. RocksDB reads
/// the block of a table's properties before it looks at its checksum. Debian's build, which has
/// assertions on, ends the process when that bit is set without an index.
bool is_hash_index_bit(const std::string& bytes, std::size_t at, unsigned bit) {
  static const std::string kOneRestart("\0\0\0\0\1\0\0\0", 8);
  return bit == 7 && at >= 7 && bytes.compare(at - 7, 8, kOneRestart) == 0;
}

TEST_CASE("Embedded store: with any byte flipped it is whole, or refused untouched",
          "[cluster][meta]") {
  const TemporaryDirectory directory;
  const TemporaryDirectory copy;
  std::string text;
  const auto files = lived_in_store(directory.path(), text);
  const std::uint32_t seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int refused = 0;
  for (const auto& [name, bytes] : files) {
    if (bytes.empty()) continue;
    for (int i = 0; i < 12; ++i) {
      const std::size_t at = random() % bytes.size();
      const auto bit = static_cast<unsigned>(random() % 8U);
      if (is_hash_index_bit(bytes, at, bit)) continue;
      INFO("flipped bit " << bit << " of byte " << at << " of " << name);
      auto damaged = files;
      damaged[name][at] =
          static_cast<char>(static_cast<unsigned char>(damaged[name][at]) ^ (1U << bit));
      write_files(copy.path() / "s", damaged);
      const auto opened = MetaDatabase::open(copy.path() / "s");
      if (opened) {
        CHECK(text_of((*opened)->take_contents().items) == text);
      } else {
        ++refused;
        INFO(opened.error().message);
        CHECK(opened.error().code == Errc::corrupt);
        CHECK(files_of(copy.path() / "s") == damaged);
      }
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("Embedded store: with any file missing it is whole, or refused", "[cluster][meta]") {
  const TemporaryDirectory directory;
  const TemporaryDirectory copy;
  std::string text;
  const auto files = lived_in_store(directory.path(), text);
  for (const auto& [name, bytes] : files) {
    INFO("without " << name);
    auto less = files;
    less.erase(name);
    write_files(copy.path() / "s", less);
    const auto opened = MetaDatabase::open(copy.path() / "s");
    if (opened) {
      CHECK(text_of((*opened)->take_contents().items) == text);
    } else {
      INFO(opened.error().message);
      CHECK(opened.error().code == Errc::corrupt);
    }
  }
  write_files(copy.path() / "s", {{"acknowledged", files.at("acknowledged")}});
  CHECK(MetaDatabase::open(copy.path() / "s").error().code == Errc::corrupt);
}

TEST_CASE("Embedded store: a first start that was cut short begins anew", "[cluster][meta]") {
  const TemporaryDirectory directory;
  std::map<std::string, std::string> fresh;
  {
    const Store fixture(directory.path());
    fresh = files_of(directory.path());
  }
  const TemporaryDirectory copy;
  write_files(copy.path() / "s", {{"acknowledged", fresh.at("acknowledged")}});
  CHECK(MetaDatabase::open(copy.path() / "s"));
  write_files(copy.path() / "t", {{"acknowledged.new", "TARN"}});
  CHECK(MetaDatabase::open(copy.path() / "t"));
}

}  // namespace embedded_store_test
}  // namespace tarn::cluster
