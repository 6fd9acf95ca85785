#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "target/node/node.h"

namespace tarn::target {

// A drive that wants room has objects, copies and slices whose owners may be other targets. The
// owner alone knows when an object was read last, and it alone deletes it (docs/decisions/022):
//
//   POST /v1/internal/evict/last-reads?map=&bmd=  {"bucket":ID,"names":[...]}: a list of numbers
//   POST /v1/internal/evict/version?map=&bmd=     {"bucket":ID,"name":,"last_read":,
//                                                  "set": or "generation":}:
//                                                 {"tombstone":GENERATION or null}
//
// Bodies in MessagePack, since names may be any bytes.

/// A file on a drive: an object, a copy of one, a slice, or the full copy that lies beside slices.
struct Evictable {
  std::string name;               ///< of the object
  Generation generation;          ///< of an object or a copy; identifies its version
  std::optional<SliceKey> slice;  ///< of a slice or a full copy; its set identifies the version
  std::uint64_t bytes = 0;        ///< of its file on the drive
  std::uint32_t last_read = 0;    ///< of the object, seconds since the epoch; 0: not known
};

/// Sets `last_read` of all these files, as the owners of the objects report it. 0: the owner has no
/// such object, or does not answer in ten seconds.
Task<void> ask_last_reads(TargetNode& node, const cluster::BucketRecord& bucket,
                          std::span<Evictable> files);

/// Has the owner delete the object that the file is of, by compare-and-delete: the version is still
/// that of the file, it was not read since `last_read`, and no write is under way. Returns the
/// generation of the tombstone; nothing when the object stays. Errors of the owner's drives;
/// disconnected when it does not answer: the outcome is unknown. Not under the name's lock.
Task<Result<std::optional<Generation>>> evict_at_owner(TargetNode& node,
                                                       const cluster::BucketRecord& bucket,
                                                       const Evictable& file);

/// Routes of the internal listener: what other targets ask.
[[nodiscard]] std::vector<http::Route> eviction_owner_routes(TargetNode& node);

}  // namespace tarn::target
