#include <catch2/catch.hpp>

#include "cli/tools/bench.h"
#include "cli/tools/completion.h"
#include "cli/tools/plan.h"

namespace tarn::cli {
namespace cli_plan_test {

TEST_CASE("plan: drives for a rate, behind NFS and as an object store", "[cli][plan]") {
  struct Row {
    std::uint64_t gpus;
    std::uint64_t nfs;
    std::uint64_t object_store;
  };
  for (const Row& row : {Row{1, 15, 2}, Row{4, 60, 6}, Row{8, 120, 12}, Row{16, 240, 24},
                         Row{64, 960, 96}, Row{256, 3840, 384}}) {
    INFO(row.gpus << " GPUs");
    PlanNeeds needs;
    needs.gpus = row.gpus;
    needs.gpu_rate = 0.3e9;
    needs.data_bytes = 1'000'000'000'000;
    const auto plan = make_plan(needs);
    REQUIRE(plan.has_value());
    CHECK(plan->nfs_drives == row.nfs);
    CHECK(plan->drives_for_rate == row.object_store);
    CHECK(drives_for(static_cast<double>(row.gpus) * 0.3e9, 20e6) == row.nfs);
    CHECK(drives_for(static_cast<double>(row.gpus) * 0.3e9, 200e6) == row.object_store);
  }
}

TEST_CASE("plan: nodes, ports and shards follow from the drives", "[cli][plan]") {
  PlanNeeds needs;
  needs.gpus = 64;
  needs.data_bytes = 500'000'000'000'000;
  const auto plan = make_plan(needs);
  REQUIRE(plan.has_value());
  CHECK(plan->total_rate == Approx(19.2e9));
  CHECK(plan->drives_for_size == 28);
  CHECK(plan->drives == 96);
  CHECK(plan->nodes == 8);
  CHECK(plan->ports_per_node == 1);  // 2.4 GB/s of 11.25
  CHECK(plan->ports == 8);
  CHECK(plan->gpu_hosts == 8);
  CHECK(plan->shards == 465'662);
  CHECK(plan->shards_per_drive == 4850);
  CHECK(plan->epoch_seconds == Approx(500e12 / 19.2e9));
  needs.nic_bits = 10e9;
  CHECK(make_plan(needs)->ports_per_node == 3);  // 1.125 GB/s each
  needs.data_bytes = 5'000'000'000'000'000;
  CHECK(make_plan(needs)->drives == 278);
}

TEST_CASE("plan: what makes no sense is refused by the option's name", "[cli][plan]") {
  PlanNeeds needs;
  needs.gpus = 0;
  CHECK(make_plan(needs).error().message.find("--gpus") != std::string::npos);
  needs.gpus = 1;
  needs.gpu_rate = -1;
  CHECK(make_plan(needs).error().message.find("--rate") != std::string::npos);
}

TEST_CASE("plan: sizes are binary or decimal, as they are written", "[cli][plan]") {
  CHECK(parse_amount("1GiB").value() == 1'073'741'824);
  CHECK(parse_amount("1GB").value() == 1'000'000'000);
  CHECK(parse_amount("1.5TB").value() == 1'500'000'000'000);
  CHECK(parse_amount("100TB").value() == 100'000'000'000'000);
  CHECK(parse_amount("4096").value() == 4096);
  for (const char* wrong : {"", "GB", "1.2.3GB", "-1GB", "1e3GB", "ten", "99999999999PB"}) {
    INFO(wrong);
    CHECK_FALSE(parse_amount(wrong).has_value());
  }
}

TEST_CASE("bench: what binds", "[cli][bench]") {
  BenchFigures figures;
  figures.drives = 400e6;
  figures.through_tarn = 390e6;
  figures.on_this_machine = true;
  CHECK(what_binds(figures) == "drive");
  figures.through_tarn = 200e6;
  CHECK(what_binds(figures) == "none");
  figures.processor_share = 0.95;
  CHECK(what_binds(figures) == "processor");
  figures.network = 220e6;
  CHECK(what_binds(figures) == "processor");  // over the loopback
  figures.on_this_machine = false;
  CHECK(what_binds(figures) == "network");
}

TEST_CASE("bench: the kernel's count of processor time", "[cli][bench]") {
  const auto before = ProcessorTime::parse("cpu  100 0 50 800 50 0 0 0 0 0");
  const auto after = ProcessorTime::parse("cpu  160 0 90 850 100 0 0 0 0 0");
  CHECK(before.busy == 150);
  CHECK(before.all == 1000);
  CHECK(busy_share(before, after) == Approx(0.5));
  CHECK(ProcessorTime::now().all > 0);
  CHECK(ProcessorTime::parse("intr 1 2").all == 0);
}

TEST_CASE("completion: both scripts have every command and option", "[cli][completion]") {
  const CommandTree tarn{"tarn",
                         "",
                         {"--json"},
                         {{"put", "", {"-r"}, {}}, {"bucket", "", {}, {{"rm", "", {"-y"}, {}}}}}};
  for (const std::string& script : {bash_completion(tarn), zsh_completion(tarn)}) {
    CHECK(script.find("':put'|':bucket'|'bucket:rm'") != std::string::npos);
    CHECK(script.find("='put bucket --json'") != std::string::npos);
    CHECK(script.find("='-r --json'; kind='fo'") != std::string::npos);
    CHECK(script.find("'bucket rm') ") != std::string::npos);
  }
}

}  // namespace cli_plan_test
}  // namespace tarn::cli
