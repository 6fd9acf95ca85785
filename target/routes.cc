#include "target/node.h"

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
      {"GET", "/v1/internal/summary", "what a bucket holds on this target",
       bind(node, summarize_bucket)},
      {"GET", "/v1/internal/heartbeat", "a line a second while this target lives",
       bind(node, heartbeat)},
  };
}

}  // namespace tarn::target
