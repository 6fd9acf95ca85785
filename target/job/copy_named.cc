#include "target/job/copy_named.h"

#include "common/api/upstream_props.h"
#include "target/replica/newest.h"

namespace tarn::target {

Task<Result<Destination>> find_in_bucket(TargetNode& node, BucketId bucket, std::string object) {
  auto state = node.view.state();
  if (state->bmd.find(bucket) == nullptr) {
    CO_TRY(state, co_await node.view.fresh());
  }
  const auto* record = state->bmd.find(bucket);
  if (record == nullptr)
    co_return fail(Errc::bucket_not_found, "a bucket of the job was destroyed meanwhile");
  CO_TRY(auto place,
         co_await find_destination(node, api::ObjectAddress{record->name, std::move(object)}));
  if (place.object.name.bucket != bucket)
    co_return fail(Errc::bucket_not_found, "bucket \"{}\" was destroyed and made anew meanwhile",
                   record->name.display());
  co_return place;
}

Task<Result<ObjectRequest>> find_own(TargetNode& node, BucketId bucket, std::string object) {
  CO_TRY(Destination place, co_await find_in_bucket(node, bucket, std::move(object)));
  if (place.owner->id != node.id)
    co_return fail(Errc::unavailable, "{} is target t[{}]'s now; try again", place.object.display(),
                   place.owner->id);
  // Without a lease another one may have written it since.
  if (!node.membership.lease().valid())
    co_return fail(Errc::unavailable, "this target has no lease now");
  co_return std::move(place.object);
}

Task<Result<std::optional<CopiedObject>>> copy_named(TargetNode& node, const std::string& job,
                                                     BucketId from, BucketId to, std::string object,
                                                     const api::BucketCopy& how, bool again,
                                                     std::stop_token stop) {
  std::string new_name = how.name_of_copy(object);
  CO_TRY_OK(api::check_object_name(new_name));
  CO_TRY(const ObjectRequest source, co_await find_own(node, from, std::move(object)));
  if (how.latest && api::has_upstream(source.bucket.name)) {
    CO_TRY(const bool is_there, co_await confirm_source(node, source, how.synchronize));
    if (!is_there) co_return std::optional<CopiedObject>();
  }
  CO_TRY(const auto opened, co_await open_source(node, source, stop));
  if (!opened) co_return std::optional<CopiedObject>();
  CO_TRY(const Destination goal, co_await find_in_bucket(node, to, std::move(new_name)));
  bool there = false;
  if (again) {
    CO_TRY(there, co_await is_copied(node, job, *opened, goal));
  }
  if (!there)
    CO_TRY_OK(co_await copy_to(node, job, source.name, *opened, goal, {.stop = std::move(stop)}));
  co_return CopiedObject{opened->record().size, goal.owner->id};
}

}  // namespace tarn::target
