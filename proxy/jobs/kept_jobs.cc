#include "proxy/jobs/kept_jobs.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tarn::proxy {

std::vector<std::string> jobs_to_forget(std::vector<EndedJob> ended, const KeptJobs& kept,
                                        std::int64_t now_ns) {
  std::sort(ended.begin(), ended.end(), [](const EndedJob& a, const EndedJob& b) {
    return std::pair(a.ended_ns, a.id) > std::pair(b.ended_ns, b.id);
  });
  const std::int64_t oldest = now_ns - std::chrono::nanoseconds(kept.age).count();
  std::map<std::string, std::size_t> of_kind;
  std::size_t all = 0;
  std::size_t bytes = 0;
  std::vector<std::string> out;
  for (const EndedJob& job : ended) {
    const bool keep = job.ended_ns >= oldest && all < kept.all &&
                      of_kind[job.kind] < kept.of_a_kind && bytes + job.bytes <= kept.bytes;
    if (!keep) {
      out.push_back(job.id);
      continue;
    }
    ++all;
    ++of_kind[job.kind];
    bytes += job.bytes;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace tarn::proxy
