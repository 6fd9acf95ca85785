#include "target/bring_home.h"
#include "target/bucket_mirror.h"
#include "target/copy_again.h"
#include "target/copy_room.h"
#include "target/erase_all.h"
#include "target/list_moving.h"
#include "target/move_jobs.h"
#include "target/newest.h"
#include "target/node_copies.h"
#include "target/store_jobs.h"

namespace tarn::target {
namespace {

using Function = Task<Status> (*)(TargetNode&, http::Request&);

http::RouteHandler bind(TargetNode& node, Function function) {
  return [&node, function](http::Request& request) { return function(node, request); };
}

}  // namespace

std::vector<http::Route> public_routes(TargetNode& node) {
  return {
      {"GET", "/v1/objects/*/**", "read an object, or a range of it", bind(node, get_object)},
      {"HEAD", "/v1/objects/*/**", "what is known of an object", bind(node, head_object)},
      {"PUT", "/v1/objects/*/**", "store an object (as a proxy redirected it)",
       bind(node, put_object)},
      {"DELETE", "/v1/objects/*/**", "delete an object (as a proxy redirected it)",
       bind(node, delete_object)},
      {"PATCH", "/v1/objects/*/**", "custom metadata (as a proxy redirected it)",
       bind(node, patch_object)},
      {"POST", "/v1/objects/*/**", "rename-obj, check-lock (as a proxy redirected it)",
       bind(node, post_object)},
  };
}

std::vector<http::Route> internal_routes(TargetNode& node) {
  return {
      {"GET", "/v1/internal/list", "a page of a bucket on this target", bind(node, list_objects)},
      {"GET", "/v1/internal/list-moving", "records of a bucket on this target, while names move",
       bind(node, list_moving)},
      {"GET", "/v1/internal/look-up", "what this target has of a name", bind(node, look_up)},
      {"GET", "/v1/internal/summary", "what a bucket holds on this target",
       bind(node, summarize_bucket)},
      {"POST", "/v1/internal/copy", "copy what a bucket holds on this target; a line on progress",
       bind(node, copy_bucket)},
      {"DELETE", "/v1/internal/copy", "stop such a copy", bind(node, stop_job)},
      {"GET", "/v1/internal/redundancy", "how many copies a bucket's objects have here",
       bind(node, count_copies)},
      {"POST", "/v1/internal/mirror", "as many copies as the bucket wants; a line on progress",
       bind(node, mirror_bucket)},
      {"DELETE", "/v1/internal/mirror", "stop that", bind(node, stop_job)},
      {"POST", "/v1/internal/objects",
       "delete or copy these objects of a bucket; a line on progress", bind(node, take_batch)},
      {"DELETE", "/v1/internal/objects", "stop that", bind(node, stop_job)},
      {"POST", "/v1/internal/copies/settled", "all homes have this version of a name",
       bind(node, hear_settled)},
      {"GET", "/v1/internal/copies/room", "whether a version of a name has room here",
       bind(node, tell_room)},
      {"POST", "/v1/internal/copies/again", "give the caller once more what is here of a name",
       bind(node, give_again)},
      {"POST", "/v1/internal/move/offer", "which of these names are not here, or older",
       bind(node, answer_offer)},
      {"PUT", "/v1/internal/move/copy", "take a copy that keeps its generation",
       bind(node, take_copy)},
      {"POST", "/v1/internal/move/give", "give one name to its owner now", bind(node, give_home)},
      {"GET", "/v1/internal/holdings", "how many objects lie here", bind(node, tell_holdings)},
      {"GET", "/v1/internal/rebalance", "how far it is with bringing names home",
       bind(node, tell_rebalance)},
      {"POST", "/v1/internal/rebalance",
       "give other targets what the map places there; a line on progress",
       bind(node, start_rebalance)},
      {"DELETE", "/v1/internal/rebalance", "stop such a rebalance", bind(node, stop_job)},
      {"PATCH", "/v1/internal/rebalance", "what rebalance and resilver may take",
       bind(node, change_move_limits)},
      {"POST", "/v1/internal/resilver",
       "move objects to the drives where they belong; a line on progress",
       bind(node, start_resilver)},
      {"DELETE", "/v1/internal/resilver", "stop such a resilver", bind(node, stop_job)},
      {"POST", "/v1/internal/clean-up", "remove files that are nobody's; a line on progress",
       bind(node, start_clean_up)},
      {"DELETE", "/v1/internal/clean-up", "stop such a clean-up", bind(node, stop_job)},
      {"POST", "/v1/internal/load-index",
       "bring a bucket's records into memory; a line on progress", bind(node, start_load_index)},
      {"DELETE", "/v1/internal/load-index", "stop that", bind(node, stop_job)},
      {"GET", "/v1/internal/heartbeat", "a line a second while this target lives",
       bind(node, heartbeat)},
  };
}

}  // namespace tarn::target
