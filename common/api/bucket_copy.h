#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket.h"
#include "common/base/error.h"

namespace tarn::api {

/// The objects of a bucket that are copied, their new names, and options: AIStore's CopyMsg
/// (docs/api.md).
struct BucketCopy {
  std::string prefix;                      ///< only names that begin so
  std::string prepend;                     ///< goes before each new name
  std::map<std::string, std::string> ext;  ///< "jpg" to "txt": extensions that are replaced
  bool dry_run = false;                    ///< counts, and writes nothing
  bool force = false;                      ///< although such a copy runs already
  bool synchronize = false;  ///< deletes from the destination all that the source does not have
  bool continue_on_error = false;
  bool latest = false;       ///< upstream is asked for another version of what is stored
  bool recursive = true;     ///< false: nothing below a further '/' after the prefix
  std::int64_t workers = 0;  ///< objects at a time on each target; 0: Tarn chooses, -1: one

  static constexpr std::int64_t kWorkersMax = 128;

  bool operator==(const BucketCopy&) const = default;
  [[nodiscard]] std::string name_of_copy(std::string_view name) const;
};
/// Reads the "value" of a copy-bck: keys in any case, unknown ones ignored, null for all defaults.
/// invalid_argument for keys that are wrong or contradict each other, unsupported for transforms.
[[nodiscard]] Result<BucketCopy> parse_bucket_copy(const nlohmann::json& value);
/// As nodes send it to each other.
void to_json(nlohmann::json& out, const BucketCopy& copy);
void from_json(const nlohmann::json& in, BucketCopy& copy);

/// Progress of one target in a copy.
struct CopyProgress {
  struct Sent {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
    bool operator==(const Sent&) const = default;
  };
  std::uint64_t objects = 0;  ///< of this target, copied (on a dry run: to be copied)
  std::uint64_t bytes = 0;
  std::uint64_t deleted = 0;         ///< from the destination, by `synchronize`
  std::uint64_t failed = 0;          ///< objects
  std::map<std::string, Sent> sent;  ///< of `objects`, those that went to another target
  bool done = false;
  std::string error;   ///< reason if done and not complete; else empty
  bool again = false;  ///< with an error: it may work when it is asked for again

  bool operator==(const CopyProgress&) const = default;
  /// One object more; `to` is the target that it was sent to, empty when it stayed.
  void add(std::uint64_t size, const std::string& to = "") {
    ++objects;
    bytes += size;
    if (to.empty()) return;
    Sent& there = sent[to];
    ++there.objects;
    there.bytes += size;
  }
};
void to_json(nlohmann::json& out, const CopyProgress& progress);
void from_json(const nlohmann::json& in, CopyProgress& progress);

/// "ais/@#/photos/" as it stands in `bck_to=`; the last slash may be missing. The name is checked.
[[nodiscard]] Result<Bucket> parse_bucket_uname(std::string_view text);

}  // namespace tarn::api
