#pragma once

#include <cstdint>

#include "common/api/bucket_props.h"

namespace tarn::api {

/// The most copies that a bucket may ask for.
inline constexpr int kCopiesMax = 32;

/// Number of nodes with a copy of an object (docs/decisions/014): 1 unless `mirror.domain` is node.
[[nodiscard]] std::uint8_t node_copies_of(const BucketProps& props);

/// Check of a change of properties: unsupported for a bucket that would have copies on drives and
/// on nodes. `on_nodes`: it had some on nodes at any time.
[[nodiscard]] Status check_copies(const BucketProps& before, const BucketProps& after,
                                  bool on_nodes);

/// Number of copies of an object on drives of its target. 0: the bucket has never been mirrored, so
/// an object is looked for on the drive where its name belongs. 1: it once was, so copies may lie
/// anywhere.
[[nodiscard]] std::uint8_t copies_of(const BucketProps& props);

/// Properties all set back to `defaults`, those of new buckets. The mark of a bucket that was once
/// mirrored stays.
[[nodiscard]] BucketProps reset_props(const BucketProps& props, BucketProps defaults);

/// `props` with n copies, as AIStore's make-n-copies sets it: 1 ends the mirroring.
[[nodiscard]] BucketProps with_copies(BucketProps props, int copies);

/// The key in `BucketProps::others` that marks a bucket that was mirrored once. Not shown to users.
inline constexpr const char* kSpreadKey = "mirror.spread";
/// Number of copies of each record that a target of a coded bucket keeps on its drives. Set where
/// there are too few targets for one on each (docs/decisions/019). Not shown to users; it stays for
/// ever.
inline constexpr const char* kRecordCopiesKey = "ec.record_copies";
/// Key that marks a bucket that is, or once was, coded. Not shown to users; it stays for ever.
inline constexpr const char* kCodedKey = "ec.coded";

}  // namespace tarn::api
