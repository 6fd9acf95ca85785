#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "proxy/jobs/job.h"

namespace tarn::proxy {

/// The counts and lists of a download, as its record keeps them (Job::results) and clients are
/// shown them. Lists are cut, counts are exact. Pure.
struct DownloadState {
  static constexpr std::size_t kEndedMax = 100;   ///< objects that ended last
  static constexpr std::size_t kErrorsMax = 100;  ///< first errors
  static constexpr std::size_t kCurrentMax = 1000;

  struct Object {
    std::string name;
    std::uint64_t bytes = 0;  ///< received so far
    std::uint64_t total = 0;  ///< 0: not known
    std::int64_t started_ns = 0;
    std::int64_t ended_ns = 0;  ///< 0 while it is under way
  };

  std::uint64_t finished = 0;          ///< stored, and skipped ones
  std::uint64_t skipped = 0;           ///< of `finished`, those that were there already
  std::uint64_t failed = 0;            ///< objects that could not be fetched
  std::uint64_t scheduled = 0;         ///< sent to targets so far
  std::optional<std::uint64_t> total;  ///< none until a bucket has been listed
  bool all_dispatched = false;         ///< no further object will be scheduled
  std::vector<Object> current;
  std::deque<Object> ended;
  std::vector<std::pair<std::string, std::string>> errors;  ///< name and reason

  void add_ended(Object object);
  void add_error(std::string name, std::string why);
  [[nodiscard]] std::string encode() const;
  /// The state in a record; an empty one where it has none.
  [[nodiscard]] static DownloadState of(const Job& job);
};

/// The answer of GET /v1/download about one job: AIStore's StatusResp. With `with_ended` those that
/// have ended, too.
[[nodiscard]] nlohmann::json download_status(const Job& job, bool with_ended);
/// The same in a list of jobs: without their objects.
[[nodiscard]] nlohmann::json download_summary(const Job& job);

}  // namespace tarn::proxy
