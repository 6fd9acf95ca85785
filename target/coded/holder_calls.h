#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "target/coded/slice_messages.h"
#include "target/coded/slice_seen.h"
#include "target/node/node.h"

namespace tarn::target {

// Slices of coded objects at other targets (slice_messages.h). Errors of all: unavailable (not in
// the map), disconnected (no answer), and what the target answers (slice_holder.h).

/// A slice on its way to the target that is to be its holder. Dying early ends what it has sent.
class SliceUpload {
 public:
  /// Ok: that target has a file for it. no_space when no drive there takes it.
  static Task<Result<SliceUpload>> open(TargetNode& node, std::string holder,
                                        const SliceWrite& write);

  /// The next blocks of a slice, whole ones, or bytes of a full copy.
  Task<Status> write(std::span<const std::byte> bytes);
  /// Ok: all of it is there, and kept for a while (OpenSlices::kKept).
  Task<Status> finish();

 private:
  SliceUpload(std::string holder, http::ClientStream stream)
      : holder_(std::move(holder)), stream_(std::move(stream)) {}
  Task<Status> read_answer();

  std::string holder_;
  http::ClientStream stream_;
  std::uint64_t sent_ = 0;
};

/// Bytes of a slice, in order, from its holder, which compares them with what was stored; what the
/// network did to them since is the caller's to see.
class SliceDownload {
 public:
  /// object_not_found when it has no such slice.
  static Task<Result<SliceDownload>> open(TargetNode& node, std::string holder, SliceRead read);

  /// Fills `into`. disconnected also when the holder found that bytes are not what was stored: it
  /// ends the answer there.
  Task<Status> read(std::span<std::byte> into);

 private:
  SliceDownload(std::string holder, http::ClientStream stream)
      : holder_(std::move(holder)), stream_(std::move(stream)) {}

  std::string holder_;
  http::ClientStream stream_;
};

/// Ok: the slice is on stable storage at `holder`.
Task<Status> seal_at(TargetNode& node, std::string holder, SliceSeal seal);
Task<Status> abandon_at(TargetNode& node, std::string holder, SliceToken token);
/// Ok: it has heard that the slice is not needed up to that generation.
Task<Status> drop_at(TargetNode& node, std::string holder, SliceDrop drop);

/// Reports a slice here that must be made anew to the owner of its object.
Task<Status> tell_bad(TargetNode& node, std::string owner, SliceKey key);
/// Returns for each slice, at most kSlicesAtOnce, if it is at `holder`, which may be this target. A
/// holder that is down, or does not answer, may be back with them; one that is out, or no member,
/// has lost them.
Task<std::vector<SliceSeen>> states_at(TargetNode& node, std::string holder,
                                       std::vector<SliceKey> keys);
/// Returns the owner's verdicts on slices that this target has; `wait` for all when it does not
/// answer.
Task<std::vector<SliceVerdict>> ask_owner(TargetNode& node, std::string owner,
                                          std::vector<HeldSlice> slices);

}  // namespace tarn::target
