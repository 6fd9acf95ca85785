#pragma once

#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/assign.h"
#include "proxy/list_entry.h"
#include "proxy/list_request.h"
#include "proxy/services.h"

namespace tarn::proxy {

struct ListedEntries {
  std::vector<ListEntry> entries;
  bool more = false;
};
/// One page of a bucket, merged from all targets that may hold its objects. Every one of them has
/// answered: else it is unavailable, never a short list. bucket_not_found when it was destroyed
/// meanwhile.
Task<Result<ListedEntries>> list_entries(const Services& services, KnownBucket bucket,
                                         const ListRequest& request);

}  // namespace tarn::proxy
