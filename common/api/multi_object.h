#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket_copy.h"
#include "common/api/name_template.h"
#include "common/base/error.h"

namespace tarn::api {

inline constexpr std::string_view kDeleteObjects = "delete-listrange";
inline constexpr std::string_view kCopyObjects = "copy-listrange";
inline constexpr std::string_view kEvictObjects = "evict-listrange";        ///< upstream keeps them
inline constexpr std::string_view kPrefetchObjects = "prefetch-listrange";  ///< from upstream
inline constexpr std::string_view kBlobDownload = "blob-download";          ///< one, from upstream

/// True if an action fetches objects from upstream.
[[nodiscard]] constexpr bool is_fetch(std::string_view action) {
  return action == kPrefetchObjects || action == kBlobDownload;
}

/// A job on many objects of a bucket, as a client asks for it: AIStore's ListRange with the keys of
/// the job (docs/api.md).
struct MultiObject {
  std::vector<std::string> names;       ///< without doubles; empty: those of `pattern`
  std::optional<NameTemplate> pattern;  ///< set when there are no names
  std::string about;                    ///< "list:[a b]", "template:a-{1..9}", "prefix:dir/"
  std::optional<Bucket> to;             ///< of a copy
  /// Of a delete: dry_run, continue_on_error, recursive and workers.
  BucketCopy how;

  [[nodiscard]] bool is_list() const { return !names.empty(); }
};
/// Reads the "value" of one of these actions, keys in any case. invalid_argument, naming the fault:
/// neither names nor a template, both, a name that no object can have, no destination of a copy.
[[nodiscard]] Result<MultiObject> parse_multi_object(std::string_view action,
                                                     const nlohmann::json& value);

/// Some names of such a job, for the target that owns them.
struct ObjectBatch {
  static constexpr std::size_t kNamesMax = 1024;

  std::string job;  ///< at most one batch of a job is under way at a target
  bool copies = false;
  bool fetches = false;         ///< from upstream; neither this nor copies: deletes or evicts
  bool upstream = false;        ///< deletes upstream as well
  std::uint64_t unless_in = 0;  ///< of a delete: leaves names that this bucket has; 0: none
  std::uint64_t bucket = 0;     ///< its id
  std::uint64_t to = 0;         ///< of a copy: the id of the bucket
  std::uint64_t bmd_version = 0;
  std::uint64_t map_version = 0;  ///< by which the target owns the names
  BucketCopy how;
  bool again = false;  ///< some of it may have been done before
  std::vector<std::string> names;
};
void to_json(nlohmann::json& out, const ObjectBatch& batch);
void from_json(const nlohmann::json& in, ObjectBatch& batch);

/// Progress of one target in a batch. The lists are complete when it is
/// done; they count the names of the batch from 0.
struct BatchProgress {
  CopyProgress counts;                                        ///< `objects`: deleted or copied
  std::vector<std::uint32_t> missing;                         ///< no such object
  std::vector<std::uint32_t> later;                           ///< to be sent again
  std::vector<std::pair<std::uint32_t, std::string>> failed;  ///< and why
  std::vector<std::uint32_t> unsure;  ///< of `later` and `failed`, those that may be deleted
  std::string why_later;              ///< of one of them
  std::uint64_t map_version = 0;      ///< by which the target acts
};
void to_json(nlohmann::json& out, const BatchProgress& progress);
void from_json(const nlohmann::json& in, BatchProgress& progress);

}  // namespace tarn::api
