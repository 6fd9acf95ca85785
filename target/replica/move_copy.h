#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "target/drive/toll.h"
#include "target/node/node.h"
#include "target/replica/move_offer.h"

namespace tarn::target {

// A copy that keeps its generation, from one target to another, on the internal listener:
//
//   PUT /v1/internal/move/copy?map=M&bmd=B[&anew=1]
//   body = length(4 bytes, little-endian) attribute { crc32c(4 bytes, little-endian) block }
//
// `attribute` is that of the sender's file (docs/on-disk-layout.md), so nothing of the record is
// left out. The blocks are those of the sender's index, a MiB each but for the last, with the
// checksums taken when the object was stored. So the bytes are verified from the drive of the
// sender to the memory of the receiver. A tombstone has no blocks. The answer, {"stored":B}, comes
// when the receiver has the copy durably, or (false) has something as new. With `anew` it has asked
// for the copy, since its own is bad (copy_again.h): that replaces one as new.

inline constexpr const char* kOfferPath = "/v1/internal/move/offer";
inline constexpr const char* kCopyPath = "/v1/internal/move/copy";

/// Target that takes what a walk sends, and the state of the cluster by which it does.
struct Receiver {
  cluster::Node node;
  std::uint64_t map_version = 0;  ///< of the ownership
  std::uint64_t bmd_version = 0;
};

/// Asks which names the receiver lacks (encode_wanted()). Errors: conflict when it knows a newer
/// map, or we are not in it; bucket_not_found; unavailable; disconnected when it did not answer.
Task<Result<std::vector<std::size_t>>> offer_names(TargetNode& node, const Receiver& to,
                                                   Offer offer);
/// The newest version here of a name, with its file open (null: a tombstone), to be sent.
struct Outgoing {
  io::ObjectAttribute attribute;
  std::shared_ptr<OpenObject> object;
};
/// Opens what is to be sent; nothing when there is none (any more). unavailable while not all
/// replicas have it (node_copies.h).
Task<Result<std::optional<Outgoing>>> open_outgoing(TargetNode& node, ObjectName name,
                                                    const cluster::BucketRecord& bucket);
/// Options of a copy that is sent.
struct SendCopy {
  Toll toll = {};     ///< is asked before each block; empty: the receiver waits for the copy
  bool anew = false;  ///< takes the place of one of the same generation
};
/// Sends a copy, with `attribute` as its record: of `from`, or of a tombstone when that is null.
/// True: the receiver has it durably. False: it had something as new. Errors as offer_names(), and
/// the toll's; corrupt when bytes of `from` are not what was stored: then the receiver keeps
/// nothing.
Task<Result<bool>> send_copy(TargetNode& node, const Receiver& to, io::ObjectAttribute attribute,
                             OpenObject* from, SendCopy how);

}  // namespace tarn::target
