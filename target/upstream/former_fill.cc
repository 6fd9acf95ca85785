#include "target/upstream/former_fill.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "target/node/in_time.h"
#include "target/node/node_call.h"
#include "target/replica/move_format.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kFormerConnectMost{1};
constexpr std::chrono::seconds kFormerPatience{2};  // time for its answer to begin
constexpr std::chrono::seconds kFormerLonger{5};

/// Targets that owned the name in past epochs and are up, newest first. One that has lost what it
/// had may have lost the record of a write as well.
std::vector<std::string> former_owners(const TargetNode& node, const ObjectName& name,
                                       const cluster::ClusterState& state) {
  const std::uint64_t digest = cluster::placement_digest(name.uname);
  std::vector<std::string> out;
  for (const cluster::PastEpoch& past : state.ownership->map->past) {
    const std::string& owner = past.nodes.owner(digest);
    const bool has_lost = std::find(past.lost.begin(), past.lost.end(), owner) != past.lost.end();
    if (owner == node.id || has_lost || !state.live.contains(owner)) continue;
    if (std::find(out.begin(), out.end(), owner) == out.end()) out.push_back(owner);
  }
  return out;
}

Task<Result<Upstream::Download>> open_fill(TargetNode& node, std::string url, std::string target,
                                           http::CallLimits limits) {
  CO_TRY(http::Url address, http::parse_url(url));
  auto request = signed_call(node, http::Method::get, std::move(target));
  CO_TRY(auto stream,
         co_await node.client.open(std::move(address), std::move(request), std::nullopt, limits));
  CO_TRY(const auto answer, co_await stream.read_head());
  if (answer.status != 200) co_return fail(Errc::object_not_found, "answer {}", answer.status);
  CO_TRY(auto object, upstream_object_in(answer.field(kFillObject)));
  if (object.size != stream.content_length())
    co_return fail(Errc::corrupt, "a body of another length than was described");
  co_return Upstream::Download{
      .object = std::move(object), .stream = std::move(stream), .from_target = true};
}

}  // namespace

std::string to_text(const UpstreamObject& object) {
  api::CustomMetadata checksums;
  for (const http::Field& each : object.checksums) checksums.emplace_back(each.name, each.value);
  const json out{{"size", object.size.value_or(0)},
                 {"etag", object.etag},
                 {"modified", object.modified ? json(*object.modified) : json()},
                 {"content_type", object.content_type},
                 {"content_encoding", object.content_encoding},
                 {"custom", object.custom},
                 {"checksums", checksums}};
  try {
    return out.dump(-1, ' ', true);
  } catch (const json::exception&) {
    return "";
  }
}

Result<UpstreamObject> upstream_object_in(std::string_view text) {
  return read_json(Errc::corrupt, kFillObject, [&]() -> Result<UpstreamObject> {
    const json in = json::parse(text);
    UpstreamObject out;
    out.size = in.at("size").get<std::uint64_t>();
    in.at("etag").get_to(out.etag);
    if (!in.at("modified").is_null()) out.modified = in["modified"].get<std::int64_t>();
    in.at("content_type").get_to(out.content_type);
    in.at("content_encoding").get_to(out.content_encoding);
    in.at("custom").get_to(out.custom);
    for (const json& each : in.at("checksums"))
      out.checksums.push_back({each.at(0).get<std::string>(), each.at(1).get<std::string>()});
    return out;
  });
}

Task<std::optional<Upstream::Download>> fill_of_former_owner(TargetNode& node, ObjectName name,
                                                             const Newest& newest,
                                                             std::chrono::milliseconds silence) {
  const http::CallLimits limits{.connect = kFormerConnectMost, .stall = silence + kFormerLonger};
  api::Query query;
  query.set("bucket", std::to_string(raw(name.bucket)));
  query.set("object", name.object);
  query.set("known", newest.record ? generation_text(newest.record->generation) : "");
  const std::string target = std::string(kFillPath) + "?" + query.encode();
  for (const std::string& id : former_owners(node, name, *newest.state)) {
    const cluster::Node* owner = newest.state->map.find(id);
    if (owner == nullptr) continue;
    auto download = co_await in_time(node, open_fill(node, owner->internal_url, target, limits),
                                     kFormerPatience);
    if (download) {
      obs::log("target").info("fill of a former owner joined object={} from={}", name.uname, id);
      co_return std::move(*download);
    }
    if (download.error().code != Errc::object_not_found)
      obs::log("target").warn("fill of a former owner not joined object={} from={} err={}",
                              name.uname, id, download.error().message);
  }
  co_return std::nullopt;
}

}  // namespace tarn::target
