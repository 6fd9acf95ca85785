#pragma once

#include <chrono>
#include <cstdint>

#include "common/api/custom_metadata.h"
#include "common/io/object_attribute.h"
#include "target/upstream/upload.h"

namespace tarn::target {

/// The mark of a name that is being written upstream: a tombstone with metadata of its own. It is
/// durable before upstream is asked: a crash then leaves a name that the cluster does not have.
/// Such a name is read from upstream, whatever that has by then. The end of the write replaces the
/// mark, unless the outcome is not known.

/// A mark is open for so long: upstream may have the old version or the new one. Twice the time
/// after which the write surely has no effect, since clocks of nodes differ.
inline constexpr std::chrono::seconds kMarkOpen = 2 * Upload::kPatience;

/// Metadata of a tombstone that is a mark.
[[nodiscard]] inline api::CustomMetadata write_mark() { return {{api::kWritingKey, "upstream"}}; }

/// True for a mark that is still open. `now`: nanoseconds of the wall clock.
[[nodiscard]] inline bool is_open_mark(const io::ObjectRecord& record, std::int64_t now) {
  if (record.kind != io::ObjectRecord::Kind::tombstone || record.custom != write_mark())
    return false;
  return now - record.modified_ns < std::chrono::nanoseconds(kMarkOpen).count();
}

}  // namespace tarn::target
