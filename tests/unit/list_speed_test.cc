// How fast a list is, without the network: run by hand, `tarn-unit-tests "[.speed]"`.

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/api/list_merge.h"
#include "proxy/list/list_codec.h"
#include "target/drive/index.h"
#include "target/request/list_page.h"

namespace list_speed_test {

using namespace tarn;

/// Of this thread: what else the machine does shall not count.
std::chrono::nanoseconds processor_time() {
  ::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TEST_CASE("list speed: from the index of one drive to the bytes for the client", "[.speed]") {
  constexpr std::uint64_t kNames = 300'000;
  constexpr std::size_t kPage = 10'000;
  std::string directory = (std::filesystem::temp_directory_path() / "tarn-speed-XXXXXX").string();
  REQUIRE(mkdtemp(directory.data()) != nullptr);
  const target::IndexMemory memory(32U << 20U, 32U << 20U);
  auto index = target::Index::open(directory + "/index", directory, memory).value();
  for (std::uint64_t i = 0; i < kNames;) {
    target::IndexBatch batch;
    for (std::uint64_t k = 0; k < 10'000; ++k, ++i) {
      io::ObjectRecord record;
      record.size = 100'000'000 + i;
      record.xxh64 = i * 0x9E3779B97F4A7C15;
      record.modified_ns = 1'795'255'872'000'000'000 + static_cast<std::int64_t>(i);
      batch.put_record(BucketId{1}, fmt::format("imagenet/train/shard-{:08}.tar", i), record);
    }
    REQUIRE(index->commit_lazily(std::move(batch)));
  }
  for (const char* props : {"name,size", "name,size,checksum,version,atime,location"}) {
    target::ListPlan plan;
    plan.bucket.id = BucketId{1};
    plan.fields = api::parse_list_fields(props).value();
    std::uint64_t listed = 0;
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds at_target{0};
    std::chrono::nanoseconds at_proxy{0};
    std::string after;
    for (bool more = true; more;) {
      const auto begin = processor_time();
      target::DrivePage walked(plan, "t[t]:mp[/srv/d1, sda, xfs]", after, kPage);
      REQUIRE(index->list(
          plan.bucket.id, "", after,
          [&](std::string_view name, const auto& record) { return walked.visit(name, record); }));
      const api::PackedPage page = walked.take();
      std::string sent = api::encode_page(page.entries, page.more);
      const auto middle = processor_time();
      api::ListMerge merge(1, kPage, after);
      REQUIRE(merge.feed(0, api::decode_page(std::move(sent)).value()));
      const api::MergedPage merged = merge.take();
      const std::string answer =
          proxy::to_msgpack({.uuid = "abcdefghijkl", .token = "", .entries = &merged.entries});
      at_target += middle - begin;
      at_proxy += processor_time() - middle;
      listed += merged.entries.size();
      bytes += answer.size();
      more = merged.more;
      if (more) after = std::string(merged.entries.back().name);
    }
    REQUIRE(listed == kNames);
    const auto per_second = [&](std::chrono::nanoseconds took) {
      return static_cast<double>(listed) / std::chrono::duration<double>(took).count() / 1e6;
    };
    fmt::print(
        "{}: target {:.2f}, proxy {:.2f} million names a second of one core, {:.0f} bytes a name\n",
        props, per_second(at_target), per_second(at_proxy),
        static_cast<double>(bytes) / static_cast<double>(listed));
  }
  std::filesystem::remove_all(directory);
}

}  // namespace list_speed_test
