#include "common/api/bucket_copy.h"

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"

namespace tarn::api {
namespace {

using nlohmann::json;

Error bucket_copy_wrong(std::string_view key, std::string_view what) {
  return {Errc::invalid_argument, fmt::format("copy-bck: \"{}\" {}", key, what)};
}

/// Takes one key of the message into `copy`.
Status bucket_copy_take(std::string_view key, const json& value, BucketCopy& copy) {
  if (value.is_null()) return {};
  for (auto& [name, text] :
       {std::pair{"prefix", &copy.prefix}, std::pair{"prepend", &copy.prepend}})
    if (iequals(key, name)) {
      if (!value.is_string()) return fail(bucket_copy_wrong(key, "is no string"));
      *text = value.get<std::string>();
    }
  bool not_recursive = !copy.recursive;
  for (auto& [name, flag] :
       {std::pair{"dry_run", &copy.dry_run}, std::pair{"force", &copy.force},
        std::pair{"latest-ver", &copy.latest}, std::pair{"synchronize", &copy.synchronize},
        std::pair{"coer", &copy.continue_on_error}, std::pair{"non-recurs", &not_recursive}})
    if (iequals(key, name)) {
      if (!value.is_boolean()) return fail(bucket_copy_wrong(key, "is neither true nor false"));
      *flag = value.get<bool>();
    }
  copy.recursive = !not_recursive;
  if (iequals(key, "num-workers")) {
    if (!value.is_number_integer() || value.get<std::int64_t>() < -1 ||
        value.get<std::int64_t>() > BucketCopy::kWorkersMax)
      return fail(bucket_copy_wrong(
          key, fmt::format("is no number from -1 to {}", BucketCopy::kWorkersMax)));
    copy.workers = value.get<std::int64_t>();
  }
  if (iequals(key, "ext")) {
    if (!value.is_object())
      return fail(bucket_copy_wrong(key, "is no object such as {\"jpg\":\"txt\"}"));
    for (const auto& [from, to] : value.items()) {
      if (!to.is_string()) return fail(bucket_copy_wrong(key, "has a value that is no string"));
      copy.ext[from] = to.get<std::string>();
    }
  }
  if ((iequals(key, "id") || iequals(key, "pipeline")) && !value.empty() && value != "")
    return fail(Errc::unsupported, "copy-bck: \"{}\": transforms belong to later work", key);
  return {};
}

std::string_view without_dot(std::string_view ext) {
  while (ext.starts_with('.')) ext.remove_prefix(1);
  return ext;
}

}  // namespace

std::string BucketCopy::name_of_copy(std::string_view name) const {
  const auto dot = name.rfind('.');
  if (dot != std::string_view::npos)
    for (const auto& [from, to] : ext)
      if (name.substr(dot + 1) == without_dot(from))
        return fmt::format("{}{}.{}", prepend, name.substr(0, dot), without_dot(to));
  return prepend + std::string(name);
}

Result<BucketCopy> parse_bucket_copy(const json& value) {
  BucketCopy copy;
  if (value.is_null()) return copy;
  if (!value.is_object())
    return fail(Errc::invalid_argument, "copy-bck: \"value\" is no JSON object");
  for (const auto& [key, each] : value.items()) TRY_OK(bucket_copy_take(key, each, copy));
  TRY_OK(check_prefix(copy.prefix));
  // A name after it makes a prefix such as "../" or "a//" fail the check.
  TRY_OK(check_object_name(copy.prepend + "x"));
  for (const auto& [from, to] : copy.ext)
    if (without_dot(from).empty() || without_dot(to).empty() ||
        (from + to).find('/') != std::string::npos)
      return fail(bucket_copy_wrong(
          "ext", fmt::format("'{}' to '{}': neither may be empty or have a '/'", from, to)));
  if (copy.synchronize && (!copy.prepend.empty() || !copy.ext.empty()))
    return fail(bucket_copy_wrong(
        "synchronize",
        "deletes what the source does not have: it cannot be used with names that "
        "change on the way (prepend, ext)"));
  return copy;
}

void to_json(json& out, const BucketCopy& copy) {
  out = {{"prefix", copy.prefix},
         {"prepend", copy.prepend},
         {"ext", copy.ext},
         {"dry_run", copy.dry_run},
         {"force", copy.force},
         {"synchronize", copy.synchronize},
         {"coer", copy.continue_on_error},
         {"latest", copy.latest},
         {"recursive", copy.recursive},
         {"workers", copy.workers}};
}

void from_json(const json& in, BucketCopy& copy) {
  in.at("prefix").get_to(copy.prefix);
  in.at("prepend").get_to(copy.prepend);
  in.at("ext").get_to(copy.ext);
  in.at("dry_run").get_to(copy.dry_run);
  in.at("force").get_to(copy.force);
  in.at("synchronize").get_to(copy.synchronize);
  in.at("coer").get_to(copy.continue_on_error);
  copy.latest = in.value("latest", false);
  in.at("recursive").get_to(copy.recursive);
  in.at("workers").get_to(copy.workers);
}

void to_json(json& out, const CopyProgress& progress) {
  json sent = json::object();
  for (const auto& [target, part] : progress.sent) sent[target] = {part.objects, part.bytes};
  out = {{"objects", progress.objects}, {"bytes", progress.bytes}, {"deleted", progress.deleted},
         {"failed", progress.failed},   {"sent", std::move(sent)}, {"done", progress.done},
         {"error", progress.error},     {"again", progress.again}};
}

void from_json(const json& in, CopyProgress& progress) {
  in.at("objects").get_to(progress.objects);
  in.at("bytes").get_to(progress.bytes);
  in.at("deleted").get_to(progress.deleted);
  in.at("failed").get_to(progress.failed);
  progress.sent.clear();
  for (const auto& [target, part] : in.at("sent").items())
    progress.sent[target] = {part.at(0).get<std::uint64_t>(), part.at(1).get<std::uint64_t>()};
  in.at("done").get_to(progress.done);
  in.at("error").get_to(progress.error);
  in.at("again").get_to(progress.again);
}

Result<Bucket> parse_bucket_uname(std::string_view text) {
  const auto first = text.find('/');
  const auto second = first == std::string_view::npos ? first : text.find('/', first + 1);
  if (first == 0 || second == std::string_view::npos || text[first + 1] != '@')
    return fail(Errc::invalid_argument,
                "'{}' is not of the form provider/@uuid#namespace/bucket/, such as ais/@#/photos/",
                text);
  Bucket bucket;
  TRY(bucket.provider, canonical_provider(text.substr(0, first)));
  TRY_OK(parse_namespace(text.substr(first + 1, second - first - 1), bucket));
  std::string_view name = text.substr(second + 1);
  if (name.ends_with('/')) name.remove_suffix(1);
  TRY_OK(check_bucket_name(name));
  bucket.name = name;
  return bucket;
}

}  // namespace tarn::api
