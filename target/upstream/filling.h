#pragma once

#include <memory>

#include "target/node/node.h"
#include "target/upstream/fill.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

/// Name under which upstream has the object of a request.
[[nodiscard]] UpstreamName upstream_name(const ObjectRequest& wanted);

/// True if what is stored is what upstream has: by its entity tag, or, where the server has none,
/// by time and size.
[[nodiscard]] bool is_version_of(const UpstreamObject& object, const io::ObjectRecord& record);

/// Sources of the bytes of a fill.
enum class FillFrom : std::uint8_t {
  any,      ///< from a fill of a former owner, if there is one (former_fill.h), else from upstream
  upstream  ///< the present object of upstream
};

/// Fetches the whole of a cold object into `fill`, and makes it an object of the cluster if nothing
/// has happened to the name meanwhile. The order:
///
///   1. what the cluster has of the name is noted: nothing, or a tombstone, which may be the open
///      mark of a write (write_mark.h): then nothing is kept;
///   2. upstream, or a former owner that has asked it already, is asked, the body written to a work
///   file and hashed; a connection that breaks is
///      continued by Range and If-Match, so that all bytes are of one version;
///   3. length and checksums are compared; only then readers get the last window;
///   4. under the name's lock: the name is still ours and has still what was noted; commit.
///
/// A crash before the end of 4 leaves a work file, which a start removes. A failure in 4 keeps
/// nothing, and readers get their bytes all the same.
///
/// `fill` is on `board`, and is taken from it at the end. An error conflict for readers: the object
/// has come meanwhile.
Task<void> fill_object(TargetNode& node, Upstream& upstream, FillBoard& board,
                       std::shared_ptr<Fill> fill, ObjectRequest wanted, FillFrom from);

}  // namespace tarn::target
