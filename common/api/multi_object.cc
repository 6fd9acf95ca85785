#include "common/api/multi_object.h"

#include <set>

#include <nlohmann/json.hpp>

#include "common/api/upstream_props.h"
#include "common/base/encoding.h"

namespace tarn::api {
namespace {

using nlohmann::json;

constexpr std::size_t kAboutBytesMax = 200;

/// The member of `value` with that name in any case; null when there is none.
const json& member(const json& value, std::string_view name) {
  static const json none;
  for (const auto& [key, each] : value.items())
    if (iequals(key, name)) return each;
  return none;
}

Error multi_object_wrong(std::string_view action, std::string_view what) {
  return {Errc::invalid_argument, fmt::format("{}: {}", action, what)};
}

Status take_names(std::string_view action, const json& list, MultiObject& out) {
  if (!list.is_array()) return fail(multi_object_wrong(action, "\"objnames\" is no list of names"));
  std::set<std::string_view> seen;
  for (const json& each : list) {
    if (!each.is_string())
      return fail(multi_object_wrong(action, "\"objnames\" has something that is no name"));
    const auto& name = each.get_ref<const std::string&>();
    TRY_OK(check_object_name(name));
    if (seen.insert(name).second) out.names.push_back(name);
  }
  out.about = "list:[";
  for (const std::string& name : out.names) {
    if (out.about.size() + name.size() > kAboutBytesMax) {
      out.about += fmt::format("... ({} names)", out.names.size());
      break;
    }
    out.about += (out.about.ends_with('[') ? "" : " ") + name;
  }
  out.about += "]";
  return {};
}

Status take_template(std::string_view action, const json& text, MultiObject& out) {
  if (!text.is_string()) return fail(multi_object_wrong(action, "\"template\" is no string"));
  TRY(out.pattern, NameTemplate::parse(text.get_ref<const std::string&>()));
  TRY_OK(check_prefix(out.pattern->prefix()));
  if (const auto count = out.pattern->count())
    for (const std::uint64_t index : {std::uint64_t{0}, *count - 1})
      TRY_OK(check_object_name(out.pattern->name(index)));
  out.about = (out.pattern->is_prefix() ? "prefix:" : "template:") + text.get<std::string>();
  return {};
}

Status take_goal(const json& goal, MultiObject& out) {
  try {
    out.to = goal.get<Bucket>();
  } catch (const json::exception&) {
    return fail(multi_object_wrong(
        kCopyObjects,
        "\"tobck\" must name the destination: {\"name\":\"photos\",\"provider\":\"ais\"}"));
  }
  TRY(out.to->provider, canonical_provider(out.to->provider));
  TRY_OK(check_bucket_name(out.to->name));
  const bool is_ours = out.to->provider == "ais" && out.to->ns_uuid.empty();
  if (!is_ours && !has_upstream(*out.to))
    return fail(Errc::unsupported,
                "bucket \"{}\" cannot be the destination: buckets of this provider belong to later "
                "work",
                out.to->display());
  if (!out.how.prefix.empty())
    return fail(multi_object_wrong(kCopyObjects,
                                   "\"prefix\" is for whole buckets: say it as the \"template\""));
  return {};
}

}  // namespace

Result<MultiObject> parse_multi_object(std::string_view action, const json& value) {
  const auto* const nothing =
      "it must say which objects: \"objnames\":[..] or \"template\":\"..\"; \"template\":\"*\" "
      "stands for all";
  if (!value.is_object()) return fail(multi_object_wrong(action, nothing));
  MultiObject out;
  TRY(out.how, parse_bucket_copy(value));
  const json& names = member(value, "objnames");
  const json& pattern = member(value, "template");
  if (!names.is_null()) TRY_OK(take_names(action, names, out));
  if (out.is_list() && !pattern.is_null() && pattern != "")
    return fail(multi_object_wrong(action, "it has both \"objnames\" and a \"template\""));
  if (!out.is_list()) {
    // A list that came out empty shall not mean everything.
    if (pattern.is_null() || (pattern == "" && !names.is_null()))
      return fail(multi_object_wrong(action, nothing));
    TRY_OK(take_template(action, pattern, out));
  }
  if (action == kCopyObjects) TRY_OK(take_goal(member(value, "tobck"), out));
  return out;
}

void to_json(json& out, const ObjectBatch& batch) {
  out = {{"job", batch.job},         {"copies", batch.copies},     {"bucket", batch.bucket},
         {"to", batch.to},           {"bmd", batch.bmd_version},   {"map", batch.map_version},
         {"how", batch.how},         {"again", batch.again},       {"names", batch.names},
         {"fetches", batch.fetches}, {"upstream", batch.upstream}, {"unless_in", batch.unless_in}};
}

void from_json(const json& in, ObjectBatch& batch) {
  in.at("job").get_to(batch.job);
  in.at("copies").get_to(batch.copies);
  in.at("bucket").get_to(batch.bucket);
  in.at("to").get_to(batch.to);
  in.at("bmd").get_to(batch.bmd_version);
  in.at("map").get_to(batch.map_version);
  in.at("how").get_to(batch.how);
  in.at("again").get_to(batch.again);
  in.at("names").get_to(batch.names);
  batch.fetches = in.value("fetches", false);
  batch.upstream = in.value("upstream", false);
  batch.unless_in = in.value("unless_in", std::uint64_t{0});
}

void to_json(json& out, const BatchProgress& progress) {
  out = {{"counts", progress.counts},  {"missing", progress.missing},
         {"later", progress.later},    {"failed", progress.failed},
         {"unsure", progress.unsure},  {"why_later", progress.why_later},
         {"map", progress.map_version}};
}

void from_json(const json& in, BatchProgress& progress) {
  in.at("counts").get_to(progress.counts);
  in.at("missing").get_to(progress.missing);
  in.at("later").get_to(progress.later);
  in.at("failed").get_to(progress.failed);
  in.at("unsure").get_to(progress.unsure);
  in.at("why_later").get_to(progress.why_later);
  in.at("map").get_to(progress.map_version);
}

}  // namespace tarn::api
