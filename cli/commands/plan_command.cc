#include <cstdlib>
#include <memory>

#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/base/progress.h"
#include "cli/commands/commands.h"
#include "cli/tools/plan.h"

namespace tarn::cli {
namespace {

/// As people write them; numbers whose units stand in the option's help.
struct PlanArguments {
  std::uint64_t gpus = 8;
  double rate = 0.3;
  std::string size = "100TB";
  std::uint64_t copies = 1;
  double drive_rate = 200;
  std::string drive_size = "20TB";
  std::uint64_t drives_per_node = 12;
  double nic = 100;
  std::uint64_t gpus_per_host = 8;
  std::string shard_size = "1GiB";
};

Result<PlanNeeds> needs_of(const PlanArguments& arguments) {
  PlanNeeds needs;
  needs.gpus = arguments.gpus;
  needs.gpu_rate = arguments.rate * 1e9;
  needs.copies = arguments.copies;
  needs.drive_rate = arguments.drive_rate * 1e6;
  needs.drives_per_node = arguments.drives_per_node;
  needs.nic_bits = arguments.nic * 1e9;
  needs.gpus_per_host = arguments.gpus_per_host;
  TRY(needs.data_bytes, parse_amount(arguments.size));
  TRY(needs.drive_bytes, parse_amount(arguments.drive_size));
  TRY(needs.shard_bytes, parse_amount(arguments.shard_size));
  return needs;
}

nlohmann::ordered_json plan_json_of(const PlanNeeds& needs, const Plan& plan) {
  return {{"gpus", needs.gpus},
          {"gpu_rate", needs.gpu_rate},
          {"total_rate", plan.total_rate},
          {"data_bytes", needs.data_bytes},
          {"copies", needs.copies},
          {"drives", plan.drives},
          {"drives_for_rate", plan.drives_for_rate},
          {"drives_for_size", plan.drives_for_size},
          {"nfs_drives", plan.nfs_drives},
          {"nodes", plan.nodes},
          {"ports_per_node", plan.ports_per_node},
          {"ports", plan.ports},
          {"gpu_hosts", plan.gpu_hosts},
          {"ports_per_gpu_host", plan.ports_per_gpu_host},
          {"shards", plan.shards},
          {"shards_per_drive", plan.shards_per_drive},
          {"epoch_seconds", plan.epoch_seconds},
          {"advice", plan.advice}};
}

void print_plan(const PlanArguments& arguments, const Plan& plan) {
  fmt::print("{} GPUs at {:g} GB/s: {:g} GB/s together; {} of data, {} {}\n\n", arguments.gpus,
             arguments.rate, plan.total_rate / 1e9, arguments.size, arguments.copies,
             arguments.copies == 1 ? "copy" : "copies");
  Table table({"WHAT", "NUMBER", "WHY"});
  table.add({"drives", std::to_string(plan.drives),
             fmt::format("{} for the rate at {:g} MB/s each, {} for the size at {} each, 90% full",
                         plan.drives_for_rate, arguments.drive_rate, plan.drives_for_size,
                         arguments.drive_size)});
  table.add({"nodes", std::to_string(plan.nodes),
             fmt::format("{} drives each", arguments.drives_per_node)});
  table.add(
      {"network ports of nodes", std::to_string(plan.ports),
       fmt::format("{} each, {:g} Gbit/s, 90% of it payload", plan.ports_per_node, arguments.nic)});
  table.add({"network ports of GPU hosts", std::to_string(plan.gpu_hosts * plan.ports_per_gpu_host),
             fmt::format("{} hosts with {} GPUs, {} each", plan.gpu_hosts, arguments.gpus_per_host,
                         plan.ports_per_gpu_host)});
  table.add({"shards", std::to_string(plan.shards),
             fmt::format("{} each, {} on a drive", arguments.shard_size, plan.shards_per_drive)});
  table.add({"time of an epoch", clock_text(plan.epoch_seconds), "h:mm:ss, every byte read once"});
  table.add({"drives behind NFS", std::to_string(plan.nfs_drives),
             fmt::format("for the same rate: {:g} MB/s a drive when many readers share it",
                         kNfsDriveRate / 1e6)});
  table.print();
  for (const std::string& sentence : plan.advice) fmt::print("\nNote: {}.", sentence);
  if (!plan.advice.empty()) fmt::print("\n");
}

Exit run_plan(const PlanArguments& arguments, bool json) {
  const auto needs = needs_of(arguments);
  if (!needs) return complain("plan", needs.error());
  const auto plan = make_plan(*needs);
  if (!plan) return complain("plan", plan.error());
  if (json)
    print_json(plan_json_of(*needs, *plan));
  else
    print_plan(arguments, *plan);
  return Exit::ok;
}

}  // namespace

void add_plan_command(const CommandLine& line) {
  auto* command = line.app.add_subcommand(
      "plan", "Say how many drives, nodes, network ports and shards a training needs");
  command->footer("Example:\n  tarn plan --gpus 64 --rate 0.3 --size 200TB");
  const auto arguments = std::make_shared<PlanArguments>();
  command->add_option("--gpus", arguments->gpus, "how many GPUs read (8)");
  command->add_option("--rate", arguments->rate, "GB/s that each of them reads (0.3)");
  command->add_option("--size", arguments->size, "of the data set: 100TB, 50TiB (100TB)");
  command->add_option("--copies", arguments->copies, "of each object (1)");
  command->add_option("--drive-rate", arguments->drive_rate, "MB/s of a drive in sequence (200)");
  command->add_option("--drive-size", arguments->drive_size, "(20TB)");
  command->add_option("--drives-per-node", arguments->drives_per_node, "(12)");
  command->add_option("--nic", arguments->nic, "Gbit/s of a network port (100)");
  command->add_option("--gpus-per-host", arguments->gpus_per_host, "(8)");
  command->add_option("--shard-size", arguments->shard_size, "(1GiB)");
  command->callback([arguments, &options = line.options, &chosen = line.chosen] {
    chosen = [arguments, &options] { return run_plan(*arguments, options.json); };
  });
}

}  // namespace tarn::cli
