// `PUT ?object_to=UNAME`: what the path names is copied to what the query names. The proxy sent the
// request to the owner of the source. The answer reports what was copied.

#include "common/api/upstream_props.h"
#include "common/obs/log.h"
#include "target/commit/peer_copy.h"
#include "target/drive/record_fields.h"
#include "target/replica/newest.h"
#include "target/request/handlers.h"

namespace tarn::target {

Task<Status> copy_object(TargetNode& node, http::Request& request, const ObjectRequest& wanted) {
  if (request.head().content_length.value_or(0) > 0)
    co_return fail(Errc::invalid_argument, "a copy (object_to=) takes no body");
  CO_TRY(auto address, api::parse_uname(request.query().get("object_to")));
  CO_TRY(const Destination to, co_await find_destination(node, std::move(address)));
  CO_TRY(const bool latest, request.query().flag("latest-ver"));
  if (latest && api::has_upstream(wanted.bucket.name)) {
    CO_TRY(const bool is_there, co_await confirm_source(node, wanted));
    if (!is_there) co_return fail(object_missing(wanted));
  }
  CO_TRY(const auto from, co_await open_source(node, wanted));
  if (!from) co_return fail(object_missing(wanted));
  if (to.object.name.key() != wanted.name.key()) {
    CO_TRY_OK(co_await copy_to(node, request.exchange.request_id(), wanted.name, *from, to,
                               {.conditions = &request.head()}));
  } else {  // there already
    CO_TRY_OK(co_await check_before_body(node, request.head(), wanted));
  }
  obs::log("target").debug("copy done req={} from={} to={}", request.exchange.request_id(),
                           wanted.display(), to.object.display());
  http::Response done(200);
  done.set("ETag", from->record().etag());
  add_checksum_fields(done, from->record());
  co_return co_await request.exchange.respond(std::move(done));
}

}  // namespace tarn::target
