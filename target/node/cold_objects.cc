#include "target/node/cold_objects.h"

#include "common/api/upstream_props.h"
#include "target/node/node.h"

namespace tarn::target {

bool wants_confirmed(const ObjectRequest& wanted, const http::Request& request) {
  if (!api::has_upstream(wanted.bucket.name)) return false;
  return api::freshness_of(wanted.bucket.props) != api::Freshness::never ||
         request.query().flag("latest-ver").value_or(false);
}

}  // namespace tarn::target
