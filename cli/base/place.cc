#include "cli/base/place.h"

#include <array>
#include <utility>

#include "common/api/bucket.h"
#include "common/api/request_path.h"
#include "common/api/upstream_props.h"
#include "common/base/encoding.h"

namespace tarn::cli {

std::string Place::display() const {
  if (bucket.empty()) return object;
  return object.empty() ? bucket_display() : bucket_display() + "/" + object;
}

std::string Place::bucket_display() const {
  if (provider == "ais") return bucket;
  // The API writes azure://, which AIStore's clients look for in its messages.
  if (provider == "azure") return "az://" + bucket;
  return api::Bucket{provider, "", "", bucket}.display();
}

std::string Place::bucket_uname() const { return api::Bucket{provider, "", "", bucket}.uname(); }

std::string Place::bucket_target() const {
  return "/v1/buckets/" + percent_encode(bucket) + "?provider=" + provider;
}

std::string Place::request_target() const {
  if (bucket.empty()) return "/" + percent_encode(object);
  const std::string path = api::object_path(bucket, object);
  return provider == "ais" ? path : path + "?provider=" + provider;
}

Result<Place> parse_place(std::string_view text) {
  std::string_view rest = text;
  Place place;
  if (const auto scheme_end = text.find("://"); scheme_end != std::string_view::npos) {
    const auto scheme = text.substr(0, scheme_end);
    const auto provider = api::canonical_provider(scheme == "tarn" ? "ais" : scheme);
    if (!provider || (*provider != "ais" && !api::has_upstream({*provider, "", "", ""})))
      return fail(Errc::unsupported,
                  "'{}': {}:// belongs to later work; write BUCKET/OBJECT, s3://BUCKET/OBJECT, "
                  "gs://BUCKET/OBJECT, az://BUCKET/OBJECT or ht://BUCKET/OBJECT",
                  text, scheme);
    place.provider = *provider;
    rest = text.substr(scheme_end + 3);
  }
  const auto slash = rest.find('/');
  place.bucket = rest.substr(0, slash);
  if (slash != std::string_view::npos) place.object = rest.substr(slash + 1);
  if (const auto checked = api::check_bucket_name(place.bucket); !checked)
    return fail(Errc::invalid_argument, "'{}': {}", text, checked.error().message);
  return place;
}

Result<Place> parse_object(std::string_view text) {
  TRY(Place place, parse_place(text));
  if (place.object.empty())
    return fail(Errc::invalid_argument, "'{}' names no object: write BUCKET/OBJECT", text);
  TRY_OK(api::check_object_name(place.object));
  return place;
}

Result<UrlPlace> parse_url_place(std::string_view url) {
  constexpr std::array<std::pair<std::string_view, const char*>, 5> kPrefixes{
      {{"v1/objects/", "ais"}, {"ais/", "ais"}, {"gs/", "gcp"}, {"az/", "azure"}, {"ht/", "ht"}}};
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme))
    return fail(Errc::invalid_argument, "'{}' is not a URL of the form http://host:port/name", url);
  const auto slash = url.find('/', kScheme.size());
  UrlPlace out;
  out.endpoint = url.substr(0, slash);
  auto path = slash == std::string_view::npos ? std::string_view() : url.substr(slash + 1);
  bool has_bucket = path.find('/') != std::string_view::npos;
  bool has_prefix = false;
  std::string provider = "ais";
  for (const auto& [prefix, its_provider] : kPrefixes) {
    if (has_prefix || !path.starts_with(prefix)) continue;
    path.remove_prefix(prefix.size());
    has_bucket = has_prefix = true;
    provider = its_provider;
  }
  if (!has_bucket) {
    out.place.object = path;
  } else {
    TRY(out.place, parse_object(path));
    if (has_prefix) out.place.provider = provider;
  }
  if (const auto checked = api::check_object_name(out.place.object); !checked)
    return fail(Errc::invalid_argument, "'{}': {}", url, checked.error().message);
  return out;
}

Result<Place> parse_bucket(std::string_view text) {
  TRY(Place place, parse_place(text));
  if (!place.object.empty())
    return fail(Errc::invalid_argument, "'{}' is an object, not a bucket", text);
  return place;
}

}  // namespace tarn::cli
