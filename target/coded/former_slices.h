#pragma once

#include <string>

#include "target/coded/slice_messages.h"
#include "target/node/node.h"

namespace tarn::target {

/// Reports to the holders of slices of a former record that these are not needed up to
/// `now.generation`. `now` is complete, and slices that it names itself stay (docs/decisions/019,
/// rule D). In the background, as drop_there().
void drop_former(TargetNode& node, const asio::any_io_executor& executor, const ObjectName& name,
                 const io::Coding& former, const io::ObjectRecord& now);

/// Allows `holder`, which may be this target or none (empty), to drop a slice. Tries for a minute,
/// in the background on `executor`: a holder that does not hear it asks, but not soon.
void drop_there(TargetNode& node, const asio::any_io_executor& executor, std::string holder,
                SliceDrop order);

}  // namespace tarn::target
