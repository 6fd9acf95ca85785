#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tarn::proxy {

/// Number of jobs that are kept after their end, and the time.
struct KeptJobs {
  std::size_t all = 1000;
  std::size_t of_a_kind = 500;
  std::size_t bytes = 32U << 20U;
  std::chrono::hours age{24 * 7};
};
/// Facts about a job that has ended, to decide whether it is kept.
struct EndedJob {
  std::string id;
  std::string kind;
  std::int64_t ended_ns = 0;
  std::size_t bytes = 0;
};
/// The ids of those that are to be forgotten, the oldest first. Pure.
[[nodiscard]] std::vector<std::string> jobs_to_forget(std::vector<EndedJob> ended,
                                                      const KeptJobs& kept, std::int64_t now_ns);

}  // namespace tarn::proxy
