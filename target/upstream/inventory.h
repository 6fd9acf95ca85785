#pragma once

#include <vector>

#include "common/http/router.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

struct TargetNode;

// Inventories (docs/api.md): snapshots of what the upstream of a bucket lists, each an object of
// the bucket api::inventory_store(). Its bytes:
//
//   chunks         of up to names_per_chunk names each, in the order of the names; a chunk is a
//   page
//                  as nodes send it to each other (api::encode_page)
//   index          MessagePack {"info": InventoryInfo, "chunks": [[first name, offset, bytes],
//   ...]} "tarninv1" length(8 bytes, little-endian) of the index
//
// Drives verify the checksums of an object's blocks.

/// Routes of the internal listener, all for the owner of the object. `object` is its name, `store`
/// the id of its bucket.
///
///   POST   /v1/internal/inventory       {"job":ID,"bucket":ID,"store":ID,"object":,"info":,
///                                       "names_of_chunk":N}: lists the bucket and stores what
///                                       it has; lines of api::CopyProgress
///   DELETE /v1/internal/inventory       job=ID: stops it
///   GET    /v1/internal/inventory       what is known of it: InventoryInfo; 404
///   GET    /v1/internal/inventory/list  a page of it: prefix, after, limit, props
[[nodiscard]] std::vector<http::Route> inventory_routes(TargetNode& node, Upstream& upstream);

}  // namespace tarn::target
