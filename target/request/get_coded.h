#pragma once

#include "common/http/exchange.h"
#include "common/http/message.h"
#include "target/node/node.h"

namespace tarn::target {

/// Answers a GET with bytes of a coded object: of the full copy, if this target has it, else
/// decoded, and also from where a full copy goes bad on. The first bytes are there before the
/// answer begins, so that too few slices are an error status and not a cut connection. A reader of
/// everything, at the owner that should have the full copy, leaves it there. `overtaken`: nothing
/// was sent, and the object is another one by now.
Task<Status> send_coded(TargetNode& node, http::Exchange& exchange, const ObjectRequest& wanted,
                        const io::ObjectRecord& record, http::ByteRange range,
                        http::Response response, bool& overtaken);

}  // namespace tarn::target
