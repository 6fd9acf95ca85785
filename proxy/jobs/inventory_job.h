#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/api/inventory.h"
#include "common/api/list_page.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"
#include "proxy/list/list_request.h"
#include "proxy/object/assign.h"

// Inventories of buckets with an upstream (common/api/inventory.h). The target that owns the object
// with an inventory makes it (target/upstream/inventory.h) and reads it for lists.
namespace tarn::proxy {

/// The inventories of a bucket, by name; `name` alone unless it is empty. Errors as list_entries().
Task<Result<std::vector<api::InventoryInfo>>> inventories_of(const Services& services,
                                                             api::Bucket bucket, std::string name);
/// Begins a job that makes one; its id. invalid_argument when there is one, unless the order has
/// `force`: then it takes the place of all that there are, once it is complete. unsupported for a
/// web server.
Task<Result<std::string>> start_inventory(const Services& services, const KnownBucket& bucket,
                                          api::InventoryOrder order);
/// Its work (Jobs::Drive).
Task<Status> drive_inventory(const Services& services, Job job);
/// Removes the inventories of a bucket, or that of one name. not_found when there is no such one.
Task<Status> remove_inventories(const Services& services, api::Bucket bucket, std::string name);
/// A page of an inventory of the bucket; an empty name means the only one. not_found when there is
/// none.
Task<Result<api::PackedPage>> list_inventory(const Services& services, api::Bucket bucket,
                                             std::string name, const ListRequest& request);

}  // namespace tarn::proxy
