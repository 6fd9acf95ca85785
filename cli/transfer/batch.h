#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/base/exit_code.h"
#include "cli/base/progress.h"
#include "cli/base/session.h"

namespace tarn::cli {

/// Most transfers at a time (`-j`), and their number by default.
inline constexpr unsigned kJobsMax = 256;
inline constexpr unsigned kJobsDefault = 8;

/// Result of one item of many.
struct ItemDone {
  enum class Outcome : std::uint8_t { done, skipped } outcome = Outcome::done;
  std::uint64_t bytes = 0;  ///< sent or received
};

/// Result of all of them.
struct BatchResult {
  struct Failure {
    std::string name;
    std::string message;
  };
  std::size_t done = 0;
  std::size_t skipped = 0;
  std::uint64_t bytes = 0;
  std::vector<Failure> failures;  ///< in the order of the items
  Exit last_failure = Exit::ok;
  double seconds = 0;

  /// ok, partial when some failed, else the code of the last failure.
  [[nodiscard]] Exit exit() const;
  /// {"done":..,"skipped":..,"failed":..,"bytes":..,"seconds":..,"failures":[{"name":..,"error":..}]}
  [[nodiscard]] nlohmann::ordered_json json() const;
  /// "12 sent (3.2GiB in 15 s, 218MiB/s), 4 skipped, 0 failed": `done_word` is "sent".
  [[nodiscard]] std::string summary(const std::string& done_word) const;
};

/// Runs `item(i, meter)` for every i below `count`, at most `jobs` at a time, each on a loop where
/// it may block. A failure is reported at once and ends nothing else. `name(i)` stands in its line
/// of progress.
BatchResult run_batch(Session& session, Progress& progress, std::size_t count, unsigned jobs,
                      const std::function<std::string(std::size_t)>& name,
                      const std::function<Task<Result<ItemDone>>(std::size_t, Meter&)>& item);

}  // namespace tarn::cli
