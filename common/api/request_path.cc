#include "common/api/request_path.h"

#include "common/base/encoding.h"

namespace tarn::api {
namespace {
constexpr std::size_t kQueryItemsMax = 64;
}  // namespace

Result<Query> Query::parse(std::string_view text) {
  Query query;
  while (!text.empty()) {
    const auto end = text.find('&');
    const auto item = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (item.empty()) continue;
    const auto equals = item.find('=');
    auto key = percent_decode(item.substr(0, equals), true);
    auto value = equals == std::string_view::npos ? std::optional<std::string>("")
                                                  : percent_decode(item.substr(equals + 1), true);
    if (!key || !value)
      return fail(Errc::invalid_argument, "malformed percent escape in the query '{}'", item);
    if (query.items_.size() == kQueryItemsMax)
      return fail(Errc::invalid_argument, "more than {} query parameters", kQueryItemsMax);
    query.items_.emplace_back(std::move(*key), std::move(*value));
  }
  return query;
}

std::optional<std::string_view> Query::find(std::string_view key) const {
  for (const auto& [name, value] : items_)
    if (name == key) return value;
  return std::nullopt;
}

std::string_view Query::get(std::string_view key) const { return find(key).value_or(""); }

Result<bool> Query::flag(std::string_view key) const {
  const std::string value = to_lower(get(key));
  for (const char* word : {"true", "t", "1", "y", "yes", "on"})
    if (value == word) return true;
  for (const char* word : {"", "false", "f", "0", "n", "no", "off"})
    if (value == word) return false;
  return fail(Errc::invalid_argument, "{}={} is neither true nor false", key, value);
}

void Query::set(std::string_view key, std::string_view value) {
  for (auto& [name, old] : items_) {
    if (name != key) continue;
    old = value;
    return;
  }
  items_.emplace_back(key, value);
}

std::string Query::encode() const {
  std::string out;
  for (const auto& [key, value] : items_) append_encoded(out, key, value);
  return out;
}

void Query::append_encoded(std::string& out, std::string_view key, std::string_view value) {
  if (!out.empty() && out.back() != '?') out += '&';
  append_percent_encoded(out, key);
  out += '=';
  append_percent_encoded(out, value, "/:@,");
}

Result<Target> parse_target(std::string_view raw) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (raw.size() >= scheme.size() && iequals(raw.substr(0, scheme.size()), scheme)) {
      const auto slash = raw.find('/', scheme.size());
      raw = slash == std::string_view::npos ? std::string_view("/") : raw.substr(slash);
      break;
    }
  }
  if (raw.empty() || raw.front() != '/')
    return fail(Errc::invalid_argument, "the request target '{}' does not begin with /", raw);
  const auto question = raw.find('?');
  Target target;
  target.path = raw.substr(0, question);
  if (question != std::string_view::npos) {
    TRY(target.query, Query::parse(raw.substr(question + 1)));
  }
  return target;
}

Result<Bucket> bucket_from(std::string_view name, const Query& query) {
  Bucket bucket;
  TRY(bucket.provider, canonical_provider(query.get("provider")));
  TRY_OK(parse_namespace(query.get("namespace"), bucket));
  bucket.name = name;
  return bucket;
}

std::string object_path(std::string_view bucket, std::string_view object) {
  std::string out;
  append_object_path(out, bucket, object);
  return out;
}

void append_object_path(std::string& out, std::string_view bucket, std::string_view object) {
  out += "/v1/objects/";
  append_percent_encoded(out, bucket);
  out += '/';
  append_percent_encoded(out, object, "/");
}

}  // namespace tarn::api
