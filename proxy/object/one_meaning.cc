#include "proxy/object/one_meaning.h"

#include "common/cluster/state/path_meaning.h"
#include "proxy/object/assign.h"

namespace tarn::proxy {

Status check_path_is_no_bucket(const Services& services, const cluster::ClusterState& state,
                               const api::Bucket& bucket, std::string_view object) {
  if (!is_default_bucket(services, bucket)) return {};
  return cluster::check_path_is_no_bucket(state, bucket, object);
}

bool is_default_bucket(const Services& services, const api::Bucket& bucket) {
  return bucket == plain_bucket(services.options.default_bucket);
}

}  // namespace tarn::proxy
