#include "proxy/bucket/bucket_path.h"

#include "common/obs/log.h"
#include "proxy/list/list.h"
#include "proxy/object/assign.h"

namespace tarn::proxy {

Task<Status> check_path_is_no_object(const Services& services, const api::Bucket& name) {
  const std::string& default_bucket = services.options.default_bucket;
  if (name != plain_bucket(name.name) || name.name == default_bucket) co_return Status();
  const auto state = services.view.state();
  const auto* record = state->bmd.find(plain_bucket(default_bucket));
  if (record == nullptr || record->ending) co_return Status();
  ListRequest wanted;
  wanted.prefix = name.name;
  wanted.limit = 1;
  const auto listed = co_await list_entries(services, {state, record}, wanted);
  if (!listed) {
    obs::log("proxy").warn(
        "bucket is made without a look for an object of its path bucket={} err={}", name.display(),
        listed.error().message);
    co_return Status();
  }
  if (listed->entries.empty() || listed->entries.front().name != name.name) co_return Status();
  const std::string object = default_bucket + "/" + name.name;
  co_return fail(Errc::conflict,
                 "bucket \"{}\" would take the path /{} from the object \"ais://{}\": choose "
                 "another name, or give the object one first: tarn cp {} {}/NEW && tarn rm {}",
                 name.display(), name.name, object, object, default_bucket, object);
}

}  // namespace tarn::proxy
