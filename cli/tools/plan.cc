#include "cli/tools/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "common/base/encoding.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

/// Division of rates whose quotient is a whole number may come out a hair above it.
std::uint64_t whole_units(double amount, double unit) {
  return static_cast<std::uint64_t>(std::ceil(amount / unit - 1e-9));
}

std::uint64_t divided_up(std::uint64_t amount, std::uint64_t by) {
  return amount / by + (amount % by == 0 ? 0 : 1);
}

Status check(const PlanNeeds& needs) {
  const std::array<std::pair<const char*, double>, 10> positive{{
      {"--gpus", static_cast<double>(needs.gpus)},
      {"--rate", needs.gpu_rate},
      {"--size", static_cast<double>(needs.data_bytes)},
      {"--copies", static_cast<double>(needs.copies)},
      {"--drive-rate", needs.drive_rate},
      {"--drive-size", static_cast<double>(needs.drive_bytes)},
      {"--drives-per-node", static_cast<double>(needs.drives_per_node)},
      {"--nic", needs.nic_bits},
      {"--gpus-per-host", static_cast<double>(needs.gpus_per_host)},
      {"--shard-size", static_cast<double>(needs.shard_bytes)},
  }};
  for (const auto& [option, value] : positive)
    if (!(value > 0) || !std::isfinite(value))
      return fail(Errc::invalid_argument, "{}: more than 0 is wanted", option);
  for (const auto& [option, value] :
       {std::pair{"--fill", needs.fill}, {"--nic-efficiency", needs.nic_efficiency}})
    if (!(value > 0 && value <= 1))
      return fail(Errc::invalid_argument, "{}: a share above 0 and up to 1 is wanted", option);
  if (needs.gpus > 10'000'000 || needs.copies > 16)
    return fail(Errc::invalid_argument, "--gpus is at most 10000000, --copies at most 16");
  return {};
}

void advise(const PlanNeeds& needs, Plan& plan) {
  if (plan.drives_for_size > plan.drives_for_rate)
    plan.advice.push_back(
        "the size of the data decides the number of drives: they can read faster than asked for");
  if (plan.shards_per_drive < 10)
    plan.advice.push_back(
        "fewer than 10 shards a drive: some drives will hold twice as many as others; make the "
        "shards smaller (--shard-size)");
  if (plan.shards < 4 * needs.gpus)
    plan.advice.push_back(
        "fewer than 4 shards a GPU: readers cannot shuffle shards well; make the shards smaller "
        "(--shard-size)");
  if (needs.shard_bytes < 64ULL << 20U)
    plan.advice.push_back(
        "shards below 64MiB: rotational drives spend their time on moving the head");
}

}  // namespace

Result<std::uint64_t> parse_amount(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits{
      {{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15}}};
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string digits(text.substr(0, text.size() - unit.size()));
    const bool plain =
        !digits.empty() && digits.find_first_not_of("0123456789.") == std::string::npos;
    char* end = nullptr;
    const double number = plain ? std::strtod(digits.c_str(), &end) : 0;
    if (plain && *end == '\0' && number * factor < 9e18)
      return static_cast<std::uint64_t>(std::llround(number * factor));
    break;
  }
  auto size = parse_size(text);
  if (size) return *size;
  return fail(Errc::invalid_argument,
              "'{}' is not a size: write 1GiB (1073741824 bytes), 1GB (1000000000 bytes), 100TB, "
              "or a number of bytes",
              text);
}

std::uint64_t drives_for(double rate, double drive_rate) { return whole_units(rate, drive_rate); }

Result<Plan> make_plan(const PlanNeeds& needs) {
  TRY_OK(check(needs));
  Plan plan;
  plan.total_rate = static_cast<double>(needs.gpus) * needs.gpu_rate;
  plan.drives_for_rate = drives_for(plan.total_rate, needs.drive_rate);
  const double stored = static_cast<double>(needs.data_bytes) * static_cast<double>(needs.copies);
  plan.drives_for_size = whole_units(stored, static_cast<double>(needs.drive_bytes) * needs.fill);
  plan.drives = std::max(plan.drives_for_rate, plan.drives_for_size);
  plan.nfs_drives = drives_for(plan.total_rate, kNfsDriveRate);
  plan.nodes = divided_up(plan.drives, needs.drives_per_node);
  const double port_rate = needs.nic_bits / 8 * needs.nic_efficiency;
  // Rate that is asked of a node, not the rate that its drives could reach: more drives than the
  // rate needs read less each.
  const double node_rate = plan.total_rate / static_cast<double>(plan.nodes);
  plan.ports_per_node = std::max<std::uint64_t>(1, whole_units(node_rate, port_rate));
  plan.ports = plan.nodes * plan.ports_per_node;
  plan.gpu_hosts = divided_up(needs.gpus, needs.gpus_per_host);
  const double host_rate =
      static_cast<double>(std::min(needs.gpus, needs.gpus_per_host)) * needs.gpu_rate;
  plan.ports_per_gpu_host = std::max<std::uint64_t>(1, whole_units(host_rate, port_rate));
  plan.shards = divided_up(needs.data_bytes, needs.shard_bytes);
  plan.shards_per_drive = plan.shards * needs.copies / plan.drives;
  plan.epoch_seconds = static_cast<double>(needs.data_bytes) / plan.total_rate;
  advise(needs, plan);
  return plan;
}

}  // namespace tarn::cli
