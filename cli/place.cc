#include "cli/place.h"

#include "common/api/bucket.h"

namespace tarn::cli {

std::string Place::display() const { return object.empty() ? bucket : bucket + "/" + object; }

Result<Place> parse_place(std::string_view text) {
  std::string_view rest = text;
  if (const auto scheme_end = text.find("://"); scheme_end != std::string_view::npos) {
    const auto scheme = text.substr(0, scheme_end);
    if (scheme != "tarn" && scheme != "ais")
      return fail(Errc::unsupported,
                  "'{}': {}:// belongs to later work; write BUCKET/OBJECT or tarn://BUCKET/OBJECT",
                  text, scheme);
    rest = text.substr(scheme_end + 3);
  }
  Place place;
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

Result<std::string> parse_bucket(std::string_view text) {
  TRY(Place place, parse_place(text));
  if (!place.object.empty())
    return fail(Errc::invalid_argument, "'{}' is an object, not a bucket", text);
  return place.bucket;
}

}  // namespace tarn::cli
