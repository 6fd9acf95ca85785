#pragma once

#include <memory>
#include <vector>

#include "target/coded/slice_messages.h"
#include "target/coded/slice_seen.h"
#include "target/node/node.h"
#include "target/node/open_slices.h"

namespace tarn::target {

// Work of a holder of slices, asked by another target (slice_requests.cc) or by itself as the owner
// of the object.

/// A file for the slice. bucket_not_found when the bucket is not there (any more), unavailable when
/// this target is in maintenance or leaves, else as SlicesHere::create().
Task<Result<std::unique_ptr<NewSlice>>> begin_slice(TargetNode& node, const SliceWrite& write);
/// All has been written: it waits to be sealed, for OpenSlices::kKept. conflict when the token has
/// been used.
Status keep_slice(TargetNode& node, SliceToken token, WrittenSlice written);
/// Makes a slice of what was written under the token: on stable storage when it returns. Errors:
/// not_found (no such token), conflict (a newer one is here), checksum_mismatch (it is not as in
/// the order), bucket_not_found, unavailable as begin_slice(); then, and after any other, what was
/// written is gone.
Task<Status> seal_slice(TargetNode& node, SliceSeal seal);
/// The slice is not needed up to this generation: it goes a while later (SliceDrops).
void drop_slice_later(TargetNode& node, SliceDrop drop);

/// Notes an error that a reader met at a slice here. A slice that is not what was stored, or cannot
/// be read, counts as missing from then on, and its owner hears of it.
void note_if_bad(TargetNode& node, const SliceKey& key, const Error& met);
/// Reports bad slices here to their owners.
Task<void> tell_of_bad_slices(TargetNode& node);
/// Returns for each slice if it is here, and not known to be bad, and on which drive.
Task<std::vector<SliceSeen>> states_here(TargetNode& node, std::vector<SliceKey> keys);
/// True if this target, which is in maintenance or leaves, still has slices: it is needed until
/// other targets have them. A leaver that has none will have none (begin_slice()).
Task<Result<bool>> is_needed_for_slices(TargetNode& node);

/// Removes at once what drop_slice_later() has noted, for room on a drive: a reader by an older
/// record begins anew.
Task<void> drop_slices_now(TargetNode& node);

/// Removes what was never sealed and what is not needed; runs until it is cancelled.
Task<void> look_after_slices(TargetNode& node);

}  // namespace tarn::target
