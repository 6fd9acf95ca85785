#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/api/download.h"

namespace tarn::api {

/// Some objects of a download, for the target that owns their names.
struct DownloadBatch {
  static constexpr std::size_t kItemsMax = 256;

  std::string job;           ///< at most one batch of a job is under way at a target
  std::uint64_t bucket = 0;  ///< its id
  std::uint64_t bmd_version = 0;
  std::uint64_t map_version = 0;       ///< by which the target owns the names
  DownloadTerms terms;                 ///< without bytes_per_hour
  std::uint64_t bytes_per_second = 0;  ///< of this target; 0: no limit
  std::vector<DownloadItem> items;
};
void to_json(nlohmann::json& out, const DownloadBatch& batch);
/// Throws nlohmann's exceptions.
void from_json(const nlohmann::json& in, DownloadBatch& batch);

/// The progress of a target with a batch. Lists count the items of the batch from 0; an item is in
/// one of them when it has ended.
struct DownloadProgress {
  struct Current {
    std::uint32_t item = 0;
    std::uint64_t bytes = 0;      ///< received so far
    std::uint64_t total = 0;      ///< 0: the server does not send it
    std::int64_t started_ns = 0;  ///< wall clock
  };
  struct Ended {
    std::uint32_t item = 0;
    std::uint64_t bytes = 0;
    std::int64_t started_ns = 0;
    std::int64_t ended_ns = 0;
  };
  bool done = false;
  std::string error;                                          ///< ends the job
  std::vector<Current> current;                               ///< under way
  std::vector<Ended> finished;                                ///< stored
  std::vector<std::uint32_t> skipped;                         ///< this version was there already
  std::vector<std::pair<std::uint32_t, std::string>> failed;  ///< and why
  std::vector<std::uint32_t> later;                           ///< to be sent again
  std::string why_later;                                      ///< of one of them
  std::uint64_t map_version = 0;                              ///< by which the target acts
};
void to_json(nlohmann::json& out, const DownloadProgress& progress);
/// Throws nlohmann's exceptions.
void from_json(const nlohmann::json& in, DownloadProgress& progress);

}  // namespace tarn::api
