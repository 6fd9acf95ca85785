#include "common/cluster/state/path_meaning.h"

namespace tarn::cluster {

Status check_path_is_no_bucket(const ClusterState& state, const api::Bucket& bucket,
                               std::string_view object) {
  if (object.find('/') != std::string_view::npos) return {};
  api::Bucket other = bucket;
  other.name = object;
  if (other == bucket || state.bmd.find(other) == nullptr) return {};
  return fail(Errc::conflict,
              "/{} is the bucket \"{}\": an object of that name in \"{}\" could not be read there; "
              "choose another name, or store it in another bucket",
              object, other.display(), bucket.display());
}

}  // namespace tarn::cluster
