#include "target/node/node.h"

#include "common/api/mirror_props.h"
#include "common/api/upstream_props.h"
#include "common/base/pause.h"

namespace tarn::target {
namespace {

/// Time that a write waits for an older owner before its client is asked to come again.
constexpr std::chrono::milliseconds kHandOverMax{3'000};
constexpr std::chrono::milliseconds kHandOverLook{10};

}  // namespace

BucketOnDrives on_drives(BucketId id, const cluster::BucketRecord* bucket) {
  if (bucket == nullptr) return {.id = id};
  const std::uint8_t copies = api::copies_of(bucket->props);
  const bool is_refetchable =
      api::has_upstream(bucket->name) && copies == 0 && !bucket->replica_count().many();
  return {id, copies, is_refetchable};
}

ObjectName name_in(const cluster::BucketRecord& bucket, std::string object) {
  const BucketOnDrives lies = on_drives(bucket.id, &bucket);
  std::string uname = bucket.placement_name(object);
  return {bucket.id, std::move(uname), std::move(object), lies.copies, lies.is_refetchable};
}

ObjectName as_of_now(const TargetNode& node, ObjectName name) {
  const auto state = node.view.state();
  if (const auto* bucket = state->bmd.find(name.bucket)) {
    const BucketOnDrives lies = on_drives(name.bucket, bucket);
    name.copies = lies.copies;
    name.is_refetchable = lies.is_refetchable;
  }
  return name;
}

Status check_writer(TargetNode& node, const std::string& uname) {
  const auto state = node.owned.state();
  if (cluster::writer_of(*state->map, cluster::placement_digest(uname)) == node.id) return {};
  return fail(Errc::cancelled, "the name has another owner by now");
}

Result<ObjectRequest> request_of(const TargetNode& node, ObjectName name) {
  ObjectRequest out;
  out.state = node.view.state();
  const auto* bucket = out.state->bmd.find(name.bucket);
  if (bucket == nullptr) return fail(Errc::bucket_not_found, "the bucket is gone");
  out.bucket = *bucket;
  out.name = std::move(name);
  return out;
}

Error object_missing(const ObjectRequest& wanted) {
  // Its name may have another owner by now, who has taken it.
  if (wanted.stale_seconds > 0)
    return {Errc::unavailable, wanted.display() +
                                   " is not here, but this target has no lease now and "
                                   "cannot tell that it does not exist"};
  return {Errc::object_not_found,
          wanted.display() + " does not exist; PUT makes it (curl -L -T FILE URL, or tarn put)"};
}

Task<Status> wait_for_turn(TargetNode& node, const std::string& uname, OwnedNames::Write& out) {
  using Verdict = OwnedNames::Verdict;
  const auto patience = std::chrono::steady_clock::now() + kHandOverMax;
  while (true) {
    if (!node.membership.lease().valid())
      co_return fail(Errc::unavailable, "this target has no lease now and takes no writes");
    const Verdict verdict = node.owned.begin(uname, out);
    if (verdict == Verdict::yes || verdict == Verdict::not_owner) co_return Status();
    if (std::chrono::steady_clock::now() >= patience)
      co_return fail(Errc::unavailable,
                     "the name is being handed over to this target by its former owner; try again");
    co_await pause(kHandOverLook);
  }
}

Task<Result<OwnedNames::Write>> begin_write(TargetNode& node, const std::string& uname) {
  OwnedNames::Write write;
  CO_TRY_OK(co_await wait_for_turn(node, uname, write));
  if (!write) co_return fail(Errc::unavailable, "the name has just got another owner; try again");
  co_return std::move(write);
}

}  // namespace tarn::target
