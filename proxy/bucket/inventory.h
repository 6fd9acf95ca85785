#pragma once

#include "common/api/bucket.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/action.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// True if an action is about the inventories of a bucket: create-, show- and destroy-inventory.
[[nodiscard]] bool is_about_inventory(const std::string& action);

/// POST, GET or DELETE of a bucket with such an action. create-inventory answers with the id of a
/// job, show-inventory with JSON: {object of the inventory: InventoryInfo}. Buckets without an
/// upstream are 400.
Task<Status> act_on_inventory(const Services& services, http::Request& request, api::Bucket bucket,
                              Action action);

}  // namespace tarn::proxy
