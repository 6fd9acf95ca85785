#include "target/routes.h"

#include "target/coded/slice_requests.h"
#include "target/job/bucket_copy.h"
#include "target/job/bucket_mirror.h"
#include "target/job/erase_all.h"
#include "target/job/object_batch.h"
#include "target/job/store_jobs.h"
#include "target/node/job_stream.h"
#include "target/node/rebuild_pace.h"
#include "target/rebalance/move_jobs.h"
#include "target/rebalance/move_take.h"
#include "target/repair/coded_counts.h"
#include "target/repair/copy_again.h"
#include "target/repair/drive_scrub.h"
#include "target/repair/keep_coded.h"
#include "target/repair/keep_recoded.h"
#include "target/repair/stakes.h"
#include "target/replica/copy_room.h"
#include "target/replica/fetch_to_owner.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/request/handlers.h"
#include "target/request/list_moving.h"

namespace tarn::target {
namespace {

using Function = Task<Status> (*)(TargetNode&, http::Request&);

http::RouteHandler bind(TargetNode& node, Function function) {
  return [&node, function](http::Request& request) { return function(node, request); };
}

Task<Status> serve(TargetNode& node, http::Request& request, Function function) {
  const ServingClient serving(node);
  co_return co_await function(node, request);
}

http::RouteHandler serving(TargetNode& node, Function function) {
  return [&node, function](http::Request& request) { return serve(node, request, function); };
}

}  // namespace

std::vector<http::Route> public_routes(TargetNode& node) {
  return {
      {"GET", "/v1/objects/*/**", "read an object, or a range of it", serving(node, get_object)},
      {"HEAD", "/v1/objects/*/**", "what is known of an object", serving(node, head_object)},
      {"PUT", "/v1/objects/*/**", "store an object (as a proxy redirected it)",
       serving(node, put_object)},
      {"DELETE", "/v1/objects/*/**", "delete an object (as a proxy redirected it)",
       serving(node, delete_object)},
      {"PATCH", "/v1/objects/*/**", "custom metadata (as a proxy redirected it)",
       serving(node, patch_object)},
      {"POST", "/v1/objects/*/**", "rename-obj, check-lock (as a proxy redirected it)",
       serving(node, post_object)},
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
      {"POST", "/v1/internal/copies/settled", "all replicas have this version of a name",
       bind(node, hear_complete)},
      {"GET", "/v1/internal/copies/room", "whether a version of a name has room here",
       bind(node, tell_room)},
      {"POST", "/v1/internal/copies/again", "give the caller once more what is here of a name",
       bind(node, give_again)},
      {"POST", "/v1/internal/move/offer", "which of these names are not here, or older",
       bind(node, answer_offer)},
      {"PUT", "/v1/internal/move/copy", "take a copy that keeps its generation",
       bind(node, take_copy)},
      {"POST", "/v1/internal/move/give", "give one name to its owner now",
       bind(node, give_to_owner)},
      {"PUT", "/v1/internal/pieces/write", "take a slice of a coded object, which is nothing yet",
       bind(node, write_slice)},
      {"POST", "/v1/internal/pieces/seal", "make a slice of what was written",
       bind(node, seal_written_slice)},
      {"POST", "/v1/internal/pieces/abandon", "what was written is not wanted",
       bind(node, abandon_slice)},
      {"GET", "/v1/internal/pieces/read", "bytes of a slice", bind(node, read_slice)},
      {"POST", "/v1/internal/pieces/drop", "a slice is not needed up to a generation",
       bind(node, drop_slice)},
      {"POST", "/v1/internal/pieces/have", "which of these slices are here",
       bind(node, tell_slices)},
      {"POST", "/v1/internal/pieces/ask", "which of these slices are needed where they are",
       bind(node, judge_slices)},
      {"GET", "/v1/internal/slices",
       "counts a bucket's coded objects of this target by their slices", bind(node, count_slices)},
      {"POST", "/v1/internal/pieces/bad", "a slice of an object of yours must be made anew",
       bind(node, hear_of_bad_slice)},
      {"GET", "/v1/internal/holdings", "how many objects lie here", bind(node, tell_holdings)},
      {"GET", "/v1/internal/rebalance", "how far it is with moving names to their targets",
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
      {"POST", "/v1/internal/clean-up", "remove files without a record; a line on progress",
       bind(node, start_clean_up)},
      {"DELETE", "/v1/internal/clean-up", "stop such a clean-up", bind(node, stop_job)},
      {"POST", "/v1/internal/load-index",
       "bring a bucket's records into memory; a line on progress", bind(node, start_load_index)},
      {"DELETE", "/v1/internal/load-index", "stop that", bind(node, stop_job)},
      {"GET", "/v1/internal/rebuild", "how far it is with making coded objects whole",
       bind(node, tell_rebuild)},
      {"POST", "/v1/internal/rebuild", "look once more for what is missing of them",
       bind(node, start_rebuild)},
      {"DELETE", "/v1/internal/rebuild", "stop making them whole for now",
       bind(node, stop_rebuild)},
      {"POST", "/v1/internal/recode",
       "keep a bucket's objects of this target as its properties say; a line on progress",
       bind(node, start_recode)},
      {"DELETE", "/v1/internal/recode", "stop that", bind(node, stop_job)},
      {"GET", "/v1/internal/stakes", "what the loss of its drives would take away",
       bind(node, tell_stakes)},
      {"GET", "/v1/internal/scrub", "how far each drive is read through, and what was bad",
       bind(node, tell_scrub)},
      {"POST", "/v1/internal/scrub", "read all drives now; a line on progress",
       bind(node, start_scrub)},
      {"DELETE", "/v1/internal/scrub", "be in no hurry with that any more", bind(node, stop_job)},
      {"GET", "/v1/internal/ready", "200 when readers may be sent here",
       bind(node, tell_readiness)},
      {"GET", "/v1/internal/heartbeat", "a line a second while this target lives",
       bind(node, heartbeat)},
  };
}

}  // namespace tarn::target
