#pragma once

#include <string>
#include <string_view>

#include "common/api/bucket.h"
#include "common/base/ids.h"

// clang-format off
/// Keys of the meta store. Numbers are decimal text, documents JSON.
///
///   key                                        value                       guard
///   /tarn/schema                               format of all this, "2"     made once; "3" from the
///                                                                          first zone on
///   /tarn/cluster                              the cluster's uuid          made once
///   /tarn/map                                  Smap                        compare its revision
///   /tarn/version/map                          the map's version           written with the map
///   /tarn/version/bmd                          counter of bucket changes   compare, each change + 1
///   /tarn/version/base                         what to add to revisions   made once (decision 010)
///   /tarn/bucket/<id>                          BucketRecord                under version/bmd
///   /tarn/bucket-name/<provider>/<ns>/<name>   {"id":..,"made_by":..}      under version/bmd
///   /tarn/dead-bucket/<id>                     when it was destroyed, ns   under version/bmd
///   /tarn/live/<node>                          LiveRecord                  the node's lease
///   /tarn/settled                              a version of the map        compare its revision
///   /tarn/secret-check                         fingerprint of the secret   made once; etcd only
///   /tarn/lead/primary                         id of a proxy               its lease, made when absent
///   /tarn/config                               ClusterConfig               compare its revision
///   /tarn/version/config                       counter of its changes      written with it
///   /tarn/moving                               uuid of a cluster           while it is copied to here
///   /tarn/moved-to                             where the cluster went      this store is unused now
///   /tarn/ended/<id>                           1                           that target has ended with the
///                                                                          cluster (cluster_end.h)
///   /tarn-jobs/last                            id of the last job begun    written with each
///   /tarn-jobs/job/<id>                        Job (proxy/jobs/job.h)      compare its revision
///
/// Jobs lie outside of /tarn/, which every node follows: only proxies need to know them. The
/// versions have keys of their own: a node can ask every second if it knows the newest without
/// reading the documents.
// clang-format on
namespace tarn::cluster::keys {

inline constexpr std::string_view kAll = "/tarn/";
inline constexpr std::string_view kSchema = "/tarn/schema";
inline constexpr std::string_view kSchemaText = "2";
/// Of clusters with a target that has a zone: programs that place without zones refuse it.
inline constexpr std::string_view kZonesSchemaText = "3";
/// Of clusters whose names could not move yet: read as it is, and "2" from the first settled
/// version on, so that programs of then refuse it.
inline constexpr std::string_view kOldSchemaText = "1";
inline constexpr std::string_view kCluster = "/tarn/cluster";
inline constexpr std::string_view kMap = "/tarn/map";
inline constexpr std::string_view kVersions = "/tarn/version/";
inline constexpr std::string_view kMapVersion = "/tarn/version/map";
inline constexpr std::string_view kBmdVersion = "/tarn/version/bmd";
inline constexpr std::string_view kBuckets = "/tarn/bucket/";
inline constexpr std::string_view kDeadBuckets = "/tarn/dead-bucket/";
inline constexpr std::string_view kLive = "/tarn/live/";
/// The newest version of the map that all live targets have put in force (docs/decisions/011).
inline constexpr std::string_view kSettled = "/tarn/settled";
inline constexpr std::string_view kSecretCheck = "/tarn/secret-check";
inline constexpr std::string_view kRevisionBase = "/tarn/version/base";
inline constexpr std::string_view kPrimary = "/tarn/lead/primary";
inline constexpr std::string_view kConfig = "/tarn/config";
inline constexpr std::string_view kConfigVersion = "/tarn/version/config";
inline constexpr std::string_view kMoving = "/tarn/moving";
inline constexpr std::string_view kMovedTo = "/tarn/moved-to";
inline constexpr std::string_view kEnded = "/tarn/ended/";
/// Begin of all our keys, jobs as well; their end is that of kAll.
inline constexpr std::string_view kFirst = "/tarn-";
inline constexpr std::string_view kAllOfJobs = "/tarn-jobs/";
inline constexpr std::string_view kLastJob = "/tarn-jobs/last";
inline constexpr std::string_view kJobs = "/tarn-jobs/job/";

[[nodiscard]] inline std::string bucket(BucketId id) {
  return std::string(kBuckets) + std::to_string(raw(id));
}
[[nodiscard]] inline std::string dead_bucket(BucketId id) {
  return std::string(kDeadBuckets) + std::to_string(raw(id));
}
[[nodiscard]] inline std::string bucket_name(const api::Bucket& name) {
  return "/tarn/bucket-name/" + name.provider + "/@" + name.ns_uuid + "#" + name.ns_name + "/" +
         name.name;
}
[[nodiscard]] inline std::string job(const std::string& id) { return std::string(kJobs) + id; }
[[nodiscard]] inline std::string live(const std::string& node) { return std::string(kLive) + node; }

}  // namespace tarn::cluster::keys
