#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"

namespace tarn::api {

/// Durability of an acknowledged write. `full`: on stable storage, so that it survives a power cut.
/// `nosync`: in the memory of the operating system, so that it survives the end of the process
/// only. `strict`: full, and in as many copies as the bucket is to have, or it is refused. `owner`:
/// an object that is cut into slices is on stable storage at its owner; the slices come after the
/// acknowledgement. All else is `full` then.
enum class Durability : std::uint8_t { full, nosync, strict, owner };
/// "full", "nosync", "strict", "owner": as it stands in properties and in the meta store.
[[nodiscard]] std::string_view to_string(Durability durability) noexcept;
/// invalid_argument for other words.
[[nodiscard]] Result<Durability> parse_durability(std::string_view text);

/// Properties that the owner of a bucket chose: AIStore's Bprops (docs/api.md) and Tarn's own
/// "durability". Properties that nodes act upon have a member; all other properties are kept as
/// they came.
struct BucketProps {
  Durability durability = Durability::full;
  bool versioning = true;  ///< a new version number for each write
  /// Other properties that have not their default: "lru.dont_evict_time" to its value as JSON.
  std::map<std::string, std::string> others;

  bool operator==(const BucketProps&) const = default;
};

/// The property checksum.type: "xxhash2" (the default), "xxhash", "md5", "crc32c", "sha256",
/// "sha512" or "none". Objects show this checksum; XXH64 is computed and compared all the same.
[[nodiscard]] std::string checksum_type_of(const BucketProps& props);

/// The complete tree with these values; without "provider", "bid" and "created", which are facts of
/// the bucket and not choices.
[[nodiscard]] nlohmann::json props_tree(const BucketProps& props);

/// `props` with the values of `wanted`, a part of the tree: leaves that are absent or null stay as
/// they are. Keys are compared without case and unknown ones ignored, as AIStore does; "force" may
/// stand beside the tree. Errors name the property, its value and the allowed values:
/// invalid_argument for wrong values, unsupported for those of later work.
[[nodiscard]] Result<BucketProps> with_changes(BucketProps props, const nlohmann::json& wanted);

}  // namespace tarn::api
