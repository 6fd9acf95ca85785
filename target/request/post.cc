// A POST at the target: AIStore's actions on one object.

#include "common/api/action.h"
#include "common/api/upstream_props.h"
#include "target/commit/incoming.h"
#include "target/request/admission.h"
#include "target/request/handlers.h"
#include "target/request/redirect_to_owner.h"

namespace tarn::target {
namespace {

/// 200 while nothing is committed under this name and nothing fetched for it, else 423. There are
/// no read locks: a reader keeps what it opened, whatever happens to the name (AIStore's 202 never
/// comes).
Task<Status> check_lock(TargetNode& node, http::Request& request, const ObjectRequest& wanted) {
  if (node.store.locks().is_held(wanted.name.key()))
    co_return fail(Errc::locked, "{} is being written", wanted.display());
  if (api::has_upstream(wanted.bucket.name) && node.cold->is_fetching(wanted))
    co_return fail(Errc::locked, "{} is being fetched", wanted.display());
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace

Task<Status> post_object(TargetNode& node, http::Request& request) {
  CO_TRY(const ObjectRequest wanted, co_await admit_write(node, request));
  if (wanted.elsewhere != nullptr) co_return co_await redirect_to_owner(node, request, wanted);
  CO_TRY_OK(check_announced_length(request.head(), *wanted.claim));
  CO_TRY(const std::string body, co_await request.exchange.read_all(api::Action::kBytesMax));
  CO_TRY(api::Action asked, api::parse_action(body));
  if (asked.action == "rename-obj" && api::has_upstream(wanted.bucket.name))
    co_return fail(Errc::unsupported,
                   "{} has an upstream, where objects cannot be renamed: copy it to its new name, "
                   "then delete it",
                   wanted.bucket.name.display());
  if (asked.action == "rename-obj")
    co_return co_await rename_object(node, request, wanted, std::move(asked.name));
  if (asked.action == "check-lock") co_return co_await check_lock(node, request, wanted);
  if (asked.action.starts_with("mpt-"))
    co_return fail(Errc::unsupported, "{}: multipart uploads belong to later work", asked.action);
  if (asked.action == "blob-download" || asked.action == "promote")
    co_return fail(Errc::unsupported, "{} belongs to later work", asked.action);
  co_return fail(Errc::invalid_argument,
                 "POST of an object does not know the action '{}'; known are rename-obj, "
                 "check-lock",
                 asked.action);
}

}  // namespace tarn::target
