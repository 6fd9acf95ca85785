#include "proxy/routes.h"

#include "proxy/admin/cluster_actions.h"
#include "proxy/admin/cluster_queries.h"
#include "proxy/admin/member_actions.h"
#include "proxy/bucket/buckets.h"
#include "proxy/bucket/multi_object.h"
#include "proxy/jobs/downloads.h"
#include "proxy/pages.h"

namespace tarn::proxy {
namespace {

using http::Request;
using http::RouteHandler;

// Services outlive the listeners, so the handlers keep a reference.

RouteHandler plain(const Services& services, Task<Status> (*function)(const Services&, Request&)) {
  return [&services, function](Request& request) { return function(services, request); };
}

/// For patterns with one star: the bucket, or another name.
RouteHandler bucket(const Services& services,
                    Task<Status> (*function)(const Services&, Request&, std::string)) {
  return [&services, function](Request& request) {
    return function(services, request, request.parts[0]);
  };
}

RouteHandler object_of(const Services& services, ObjectHandler function) {
  return [&services, function](Request& request) {
    if (request.parts[1].empty() && request.head().method == http::Method::post)
      return act_in_bucket(services, request, request.parts[0]);
    return function(services, request, request.parts[0], request.parts[1]);
  };
}

RouteHandler one_segment(const Services& services, ObjectHandler function) {
  return [&services, function](Request& request) {
    return serve_one_segment(services, function, request, request.parts[0]);
  };
}

/// Tried before any of the handlers for paths of an object.
http::InstantRouteHandler object_at_once(const Services& services, InstantObjectHandler function) {
  if (function == nullptr) return nullptr;
  return [&services, function](Request& request) {
    return names_object(request.parts[1]) &&
           function(services, request, request.parts[0], request.parts[1]);
  };
}

RouteHandler easy_path(const Services& services, ObjectHandler function) {
  return [&services, function](Request& request) {
    return serve_easy_path(services, function, request, request.parts[0], request.parts[1]);
  };
}

Task<Status> serve_bucket(const Services& services, Request& request, std::string name) {
  switch (request.head().method) {
    case http::Method::get: return list_objects(services, request, std::move(name));
    case http::Method::head: return head_bucket(services, request, std::move(name));
    case http::Method::post: return post_bucket(services, request, std::move(name));
    case http::Method::del: return delete_bucket(services, request, std::move(name));
    default: return patch_bucket(services, request, std::move(name));
  }
}

/// The rows of AIStore's easy URLs, whose first word names the provider: as if the query did.
RouteHandler easy_buckets(const Services& services, const char* provider) {
  return [&services, provider](Request& request) {
    request.target.query.set("provider", provider);
    return list_buckets(services, request);
  };
}

RouteHandler easy_bucket(const Services& services, const char* provider) {
  return [&services, provider](Request& request) {
    request.target.query.set("provider", provider);
    return serve_bucket(services, request, request.parts[0]);
  };
}

RouteHandler easy_object(const Services& services, const char* provider, ObjectHandler function) {
  return [&services, provider, function](Request& request) {
    request.target.query.set("provider", provider);
    return serve_easy_path(services, function, request, request.parts[0], request.parts[1]);
  };
}

RouteHandler plain_path(const Services& services, ObjectHandler function) {
  return [&services, function](Request& request) {
    return serve_plain_path(services, function, request, request.parts[0], request.parts[1]);
  };
}

Task<Status> refuse(Error error) { co_return fail(std::move(error)); }

RouteHandler later(std::string what) {
  return [what = std::move(what)](Request&) {
    return refuse({Errc::unsupported, what + " belongs to later work"});
  };
}

RouteHandler wrong(Errc code, std::string why) {
  return [code, why = std::move(why)](Request&) { return refuse({code, why}); };
}

constexpr std::string_view kAll = "GET HEAD PUT POST DELETE PATCH";

}  // namespace

std::vector<http::Route> client_routes(const Services& services, ObjectHandler object,
                                       InstantObjectHandler at_once) {
  return {
      // AIStore's paths
      {kAll, "/v1/objects/*/**", "an object: on its target", object_of(services, object),
       object_at_once(services, at_once)},
      {"GET", "/v1/buckets", "the buckets", plain(services, list_buckets)},
      {"POST DELETE", "/v1/buckets", "a bucket without a name",
       wrong(Errc::invalid_argument, "the bucket's name is missing: /v1/buckets/NAME")},
      {"GET", "/v1/buckets/*", "a page of a bucket's objects", bucket(services, list_objects)},
      {"HEAD", "/v1/buckets/*", "a bucket's properties", bucket(services, head_bucket)},
      {"POST", "/v1/buckets/*", "create-bck, copy-bck, move-bck", bucket(services, post_bucket)},
      {"PUT", "/v1/buckets/*", "an archive of some of its objects", later("archive")},
      {"DELETE", "/v1/buckets/*", "destroy-bck", bucket(services, delete_bucket)},
      {"PATCH", "/v1/buckets/*", "set-bprops, reset-bprops", bucket(services, patch_bucket)},
      {"GET HEAD POST DELETE PATCH", "/v1/buckets/*/**", "as /v1/buckets/*; HEAD may have a prefix",
       [&services](Request& request) {
         return bucket_with_slash(services, request, request.parts[0], request.parts[1]);
       }},
      {"GET HEAD", "/v1/cluster",
       "what the cluster is and does: what=", plain(services, query_cluster)},
      {"PUT", "/v1/cluster", "actions on all nodes, and on jobs", plain(services, change_cluster)},
      {"POST", "/v1/cluster/join-by-admin", "a node that was taken out is in the map again",
       plain(services, join_by_admin)},
      {"PUT", "/v1/cluster/proxy/*", "that proxy becomes the primary",
       bucket(services, change_primary)},
      {"PUT", "/v1/cluster/set-config", "log.level= on every node",
       plain(services, change_cluster)},
      {kAll, "/v1/cluster/**", "administration: later", later("/v1/cluster")},
      {kAll, "/v1/daemon/**", "administration: later", later("changing a node by /v1/daemon")},
      {"GET HEAD", "/v1/reverse/daemon", "/v1/daemon of the node in Ais-Node-Id",
       plain(services, query_node)},
      {"PUT", "/v1/reverse/daemon", "actions on the node in Ais-Node-Id",
       plain(services, act_on_chosen_node)},
      {"PUT", "/v1/reverse/daemon/set-config", "log.level= on the node in Ais-Node-Id",
       plain(services, act_on_chosen_node)},
      {"PUT POST DELETE", "/v1/reverse/daemon/mountpaths", "drives of the node in Ais-Node-Id",
       plain(services, act_on_chosen_node)},
      {kAll, "/v1/reverse/**", "administration: later", later("/v1/reverse")},
      {kAll, "/v1/ml/**", "get-batch: later", later("get-batch (/v1/ml)")},
      {kAll, "/v1/etl/**", "transforms: later", later("/v1/etl")},
      {kAll, "/v1/sort", "dSort's jobs: none", plain(services, list_absent_jobs)},
      {kAll, "/v1/sort/**", "dSort: later", later("/v1/sort")},
      {"POST", "/v1/download", "fetch files of other servers into a bucket",
       plain(services, begin_download)},
      {"GET", "/v1/download", "downloads, or one of them", plain(services, show_downloads)},
      {"DELETE", "/v1/download/abort", "stop a download", plain(services, abort_download)},
      {"DELETE", "/v1/download/remove", "forget a download that has ended",
       plain(services, remove_download)},
      {kAll, "/v1/download/**", "nothing",
       wrong(Errc::not_found, "below /v1/download there are abort and remove (DELETE)")},
      {kAll, "/v1/tokens/**", "access control: later", later("access control (/v1/tokens)")},
      {kAll, "/v1/**", "nothing", wrong(Errc::not_found, "no such path below /v1 (docs/api.md)")},
      // Words of the URL space
      {kAll, "/s3/**", "S3: later", later("S3 (/s3)")},
      {kAll, "/ui/**", "the dashboard: later", later("the dashboard (/ui)")},
      {"GET HEAD", "/favicon.ico", "none", wrong(Errc::not_found, "there is no favicon.ico")},
      // AIStore's easy URLs
      {"GET", "/ais", "the buckets", plain(services, list_buckets)},
      {"GET", "/ais/*", "as /v1/buckets/*", bucket(services, list_objects)},
      {"HEAD", "/ais/*", "as /v1/buckets/*", bucket(services, head_bucket)},
      {"POST", "/ais/*", "as /v1/buckets/*", bucket(services, post_bucket)},
      {"DELETE", "/ais/*", "as /v1/buckets/*", bucket(services, delete_bucket)},
      {"PATCH", "/ais/*", "as /v1/buckets/*", bucket(services, patch_bucket)},
      {kAll, "/ais/*/**", "as /v1/objects/*/**", easy_path(services, object),
       object_at_once(services, at_once)},
      {"GET", "/gs", "the buckets of this provider", easy_buckets(services, "gcp")},
      {"GET HEAD POST DELETE PATCH", "/gs/*", "as /v1/buckets/*", easy_bucket(services, "gcp")},
      {kAll, "/gs/*/**", "as /v1/objects/*/**", easy_object(services, "gcp", object)},
      {"GET", "/az", "the buckets of this provider", easy_buckets(services, "azure")},
      {"GET HEAD POST DELETE PATCH", "/az/*", "as /v1/buckets/*", easy_bucket(services, "azure")},
      {kAll, "/az/*/**", "as /v1/objects/*/**", easy_object(services, "azure", object)},
      {"GET", "/ht", "the buckets of this provider", easy_buckets(services, "ht")},
      {"GET HEAD POST DELETE PATCH", "/ht/*", "as /v1/buckets/*", easy_bucket(services, "ht")},
      {kAll, "/ht/*/**", "as /v1/objects/*/**", easy_object(services, "ht", object)},
      // Paths as people write them
      {"GET HEAD", "/", "a page of all buckets", plain(services, root_page)},
      {kAll, "/*", "a bucket's page, or an object of the default bucket",
       one_segment(services, object)},
      {kAll, "/*/**", "an object; with a '/' at the end a page", plain_path(services, object),
       object_at_once(services, at_once)},
  };
}

}  // namespace tarn::proxy
