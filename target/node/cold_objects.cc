#include "target/node/cold_objects.h"

#include "common/api/upstream_props.h"
#include "target/node/node.h"

namespace tarn::target {

bool wants_confirmed(const ColdObjects* cold, const ObjectRequest& wanted,
                     const io::ObjectRecord& record, const http::Request& request) {
  if (!api::has_upstream(wanted.bucket.name)) return false;
  if (request.query().flag("latest-ver").value_or(false)) return true;
  return api::freshness_of(wanted.bucket.props) != api::Freshness::never &&
         !cold->was_confirmed(wanted, record);
}

}  // namespace tarn::target
