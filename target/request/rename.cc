// Renaming: since HRW places by name, the bytes may go to another drive or another target, so a
// rename is a copy and then a delete. The source goes only when the copy is durable and the source
// is still what was copied; a crash in between leaves both names.

#include "common/base/fail_point.h"
#include "common/cluster/state/path_meaning.h"
#include "common/obs/log.h"
#include "target/coded/put_tombstone.h"
#include "target/commit/peer_copy.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/request/handlers.h"

namespace tarn::target {
namespace {

constexpr int kRenameAttemptsMax = 3;  // copies again when the source was changed meanwhile

/// True when `wanted` was still `copied` and is deleted now. No lock is held while anything is
/// copied, so that two renames that cross cannot wait for each other.
Task<Result<bool>> delete_if_unchanged(TargetNode& node, const ObjectRequest& wanted,
                                       Generation copied) {
  // Without the lock: what other replicas hold pending is sent to this node as well.
  if (replica_count_of(node, wanted.name.bucket).many())
    CO_TRY_OK(co_await find_complete(node, wanted));
  const auto held = co_await node.store.locks().acquire(wanted.name.key());
  CO_TRY(Newest newest, co_await find_newest(node, wanted));
  if (!newest.exists())
    co_return fail(Errc::conflict, "{} was deleted while it was renamed; the new name is there",
                   wanted.display());
  if (newest.record->generation != copied) co_return false;
  if (!node.membership.lease().valid())
    co_return fail(Errc::unavailable, "the lease ended during the rename: both names are there");
  CO_TRY_OK(co_await delete_present(node, wanted, std::move(newest.here), wanted.write));
  co_return true;
}

}  // namespace

Task<Status> rename_object(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                           std::string new_name) {
  CO_TRY_OK(api::check_object_name(new_name));
  if (new_name == wanted.name.object)
    co_return fail(Errc::invalid_argument, "{} already has that name", wanted.display());
  if (request.query().get("default_bucket") == "true")
    CO_TRY_OK(cluster::check_path_is_no_bucket(*wanted.state, wanted.bucket.name, new_name));
  CO_TRY(
      const Destination to,
      co_await find_destination(node, api::ObjectAddress{wanted.bucket.name, std::move(new_name)}));
  for (int attempt = 0; attempt < kRenameAttemptsMax; ++attempt) {
    CO_TRY(const auto from, co_await open_newest(node, wanted));
    if (!from) co_return fail(object_missing(wanted));
    CO_TRY_OK(co_await copy_to(node, request.exchange.request_id(), wanted.name, *from, to));
    CO_FAIL_POINT("rename.before_delete");
    CO_TRY(const bool done, co_await delete_if_unchanged(node, wanted, from->record().generation));
    if (!done) continue;
    CO_TRY_OK(check_lease_before_reply(wanted.write));
    obs::log("target").debug("rename done req={} from={} to={}", request.exchange.request_id(),
                             wanted.display(), to.object.display());
    co_return co_await request.exchange.respond(http::Response(200));
  }
  co_return fail(Errc::conflict,
                 "{} was overwritten again and again while it was renamed; both names are there",
                 wanted.display());
}

}  // namespace tarn::target
