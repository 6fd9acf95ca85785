// tarn-simulate: the real code that decides about ownership, under simulated faults
// (docs/testing.md).

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tests/simulation/safeties.h"
#include "tests/simulation/scale.h"
#include "tests/simulation/schedule.h"

namespace tarn::simulation {
namespace {

constexpr std::string_view kUsage =
    "tarn-simulate [--seed S] [--schedules N]   runs schedules S to S+N-1; exit 0: no violation\n"
    "tarn-simulate --seed S --trace             one schedule, every step of it\n"
    "tarn-simulate ... --without SAFETY         leaves a safety out\n"
    "tarn-simulate --sabotage [--schedules N]   each safety in turn: exit 0 when each was missed\n"
    "                                           within N schedules\n"
    "tarn-simulate --scale [--names N]          what a change costs in a cluster of 1,000 "
    "targets;\n"
    "                                           N names are sampled (2000000)\n";

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t schedules = 1000;
  bool trace = false;
  bool sabotage = false;
  bool scale = false;
  std::uint64_t names = 2'000'000;  // sampled by --scale
  std::string without;
};

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<Options> parse(int count, char** words) {
  Options out;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--trace") {
      out.trace = true;
      out.schedules = 1;
    } else if (word == "--sabotage") {
      out.sabotage = true;
    } else if (word == "--scale") {
      out.scale = true;
    } else if (i + 1 == count) {
      return std::nullopt;
    } else if (word == "--without") {
      out.without = words[++i];
    } else {
      const auto value = number(words[++i]);
      if (!value || (word != "--seed" && word != "--schedules" && word != "--names"))
        return std::nullopt;
      (word == "--seed" ? out.seed : word == "--names" ? out.names : out.schedules) = *value;
    }
  }
  return out;
}

struct Totals {
  std::uint64_t schedules = 0;
  std::uint64_t events = 0;
  std::uint64_t operations = 0;
  std::uint64_t map_versions = 0;
  std::uint64_t copies = 0;
};

/// The first seed with a violation.
std::optional<std::uint64_t> run_many(const Options& options, Totals& totals) {
  for (std::uint64_t seed = options.seed; seed < options.seed + options.schedules; ++seed) {
    const Outcome outcome = run_schedule(seed, options.trace);
    ++totals.schedules;
    totals.events += outcome.events;
    totals.operations += outcome.operations;
    totals.map_versions += outcome.map_versions;
    totals.copies += outcome.copies;
    if (outcome.violation.empty()) continue;
    if (!options.sabotage)
      fmt::print("seed {}: {}\n{}repeat with: tarn-simulate --seed {} --trace{}\n", seed,
                 outcome.violation, outcome.details, seed,
                 options.without.empty() ? "" : " --without " + options.without);
    return seed;
  }
  return std::nullopt;
}

int simulate(const Options& options) {
  const auto begun = std::chrono::steady_clock::now();
  leave_out(options.without);
  Totals totals;
  const auto failed = run_many(options, totals);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  fmt::print(
      "{} schedules from seed {} in {:.1f} s ({:.0f} a second): {} events, {} operations "
      "checked, {} map versions, {} records moved, {} violations\n",
      totals.schedules, options.seed, seconds, static_cast<double>(totals.schedules) / seconds,
      totals.events, totals.operations, totals.map_versions, totals.copies, failed ? 1 : 0);
  return failed ? 1 : 0;
}

int sabotage(const Options& options) {
  int missed = 0;
  for (const Safety& safety : safeties()) {
    if (!options.without.empty() && options.without != safety.name) continue;
    leave_out(safety.name);
    Totals totals;
    Options schedules = options;
    if (safety.seed != 0) schedules.seed = safety.seed;
    const auto failed = run_many(schedules, totals);
    fmt::print("{}: without: {}: {}\n", safety.name, safety.removed,
               failed ? fmt::format("noticed in schedule {} (seed {})", totals.schedules, *failed)
                      : fmt::format("NOT noticed in {} schedules, left out {} times",
                                    totals.schedules, left_out_count()));
    std::fflush(stdout);
    if (!failed) ++missed;
  }
  leave_out("");
  return missed == 0 ? 0 : 1;
}

int run(int count, char** words) {
  if (count == 2 && std::string_view(words[1]) == "--help") {
    fmt::print("{}", kUsage);
    return 0;
  }
  const auto options = parse(count, words);
  if (!options) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  if (options->scale) return print_scale(options->names);
  return options->sabotage ? sabotage(*options) : simulate(*options);
}

}  // namespace
}  // namespace tarn::simulation

int main(int count, char** words) { return tarn::simulation::run(count, words); }
