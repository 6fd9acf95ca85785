#pragma once

#include "common/io/object_attribute.h"
#include "ec/layout.h"
#include "ec/slice_format.h"
#include "target/coded/slice_messages.h"
#include "target/store/object_name.h"

namespace tarn::target {

// Attribute and label of a slice. Pure.

/// The order to seal slice `slice` (io::kFullCopy: the full copy) of the version that `object`
/// describes. Its set was written under `written`; the record that names it has generation
/// `named_by`. invalid_argument when the names are too long for a label.
[[nodiscard]] Result<SliceSeal> seal_order(const io::ObjectAttribute& object,
                                           const ec::SliceId& slice, const Generation& written,
                                           const Generation& named_by, SliceToken token);

}  // namespace tarn::target
