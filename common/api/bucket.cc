#include "common/api/bucket.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"

namespace tarn::api {
namespace {

std::string namespace_text(const Bucket& bucket) {
  return "@" + bucket.ns_uuid + "#" + bucket.ns_name;
}

bool is_name_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

bool is_id_text(std::string_view text) {
  return text.size() <= 32 &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_name_char(c) && c != '.'; });
}

/// Checks the rules that object names and prefixes share.
Status check_components(std::string_view what, std::string_view name) {
  if (name.size() > kObjectNameBytesMax)
    return fail(Errc::invalid_argument, "{} of {} bytes: at most {} are allowed", what, name.size(),
                kObjectNameBytesMax);
  if (!is_utf8(name)) return fail(Errc::invalid_argument, "{} is not valid UTF-8", what);
  if (name.find('\0') != std::string_view::npos)
    return fail(Errc::invalid_argument, "{} has a NUL byte", what);
  if (name.starts_with("~/"))
    return fail(Errc::invalid_argument, "{} '{}' must not begin with ~/", what, name);
  if (name.starts_with('/'))
    return fail(Errc::invalid_argument, "{} '{}' must not begin with /", what, name);
  for (std::string_view rest = name; !rest.empty();) {
    const auto slash = rest.find('/');
    const auto part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    if (part == "." || part == "..")
      return fail(Errc::invalid_argument, "{} '{}' must not have a component '{}'", what, name,
                  part);
    if (part.empty())
      return fail(Errc::invalid_argument, "{} '{}' must not have an empty component (//)", what,
                  name);
  }
  return {};
}

}  // namespace

std::string Bucket::uname() const { return uname(""); }

std::string Bucket::uname(std::string_view object) const {
  std::string out;
  out.reserve(provider.size() + ns_uuid.size() + ns_name.size() + name.size() + object.size() + 5);
  out.append(provider).append("/@").append(ns_uuid).append("#").append(ns_name).append("/");
  return out.append(name).append("/").append(object);
}

std::string Bucket::display() const {
  std::string scheme = provider;
  if (provider == "aws") scheme = "s3";
  if (provider == "gcp") scheme = "gs";
  if (ns_uuid.empty() && ns_name.empty()) return scheme + "://" + name;
  return scheme + "://" + namespace_text(*this) + "/" + name;
}

void to_json(nlohmann::json& out, const Bucket& bucket) {
  out = {{"name", bucket.name},
         {"provider", bucket.provider},
         {"namespace", {{"uuid", bucket.ns_uuid}, {"name", bucket.ns_name}}}};
}

void from_json(const nlohmann::json& in, Bucket& bucket) {
  bucket = Bucket{};
  in.at("name").get_to(bucket.name);
  bucket.provider = in.value("provider", "ais");
  if (bucket.provider.empty()) bucket.provider = "ais";
  if (const auto ns = in.find("namespace"); ns != in.end() && ns->is_object()) {
    bucket.ns_uuid = ns->value("uuid", "");
    bucket.ns_name = ns->value("name", "");
  }
}

Result<std::string> canonical_provider(std::string_view word) {
  const std::string lower = to_lower(word);
  if (lower.empty() || lower == "ais") return "ais";
  if (lower == "s3" || lower == "aws") return "aws";
  if (lower == "gs" || lower == "gcp") return "gcp";
  if (lower == "az" || lower == "azure") return "azure";
  if (lower == "oc" || lower == "oci") return "oci";
  if (lower == "ht") return "ht";
  return fail(Errc::invalid_argument,
              "unknown provider '{}': known are ais, aws (s3), gcp (gs), azure (az), oci (oc), ht",
              word);
}

Status parse_namespace(std::string_view text, Bucket& bucket) {
  if (text.empty()) return {};
  const auto hash = text.find('#');
  if (text.front() != '@' || hash == std::string_view::npos)
    return fail(Errc::invalid_argument, "namespace '{}' is not of the form @uuid#name", text);
  const auto uuid = text.substr(1, hash - 1);
  const auto name = text.substr(hash + 1);
  if (!is_id_text(uuid) || !is_id_text(name))
    return fail(Errc::invalid_argument,
                "namespace '{}': uuid and name are at most 32 letters, digits, - or _", text);
  bucket.ns_uuid = uuid;
  bucket.ns_name = name;
  return {};
}

bool is_reserved_word(std::string_view word) {
  constexpr std::array<std::string_view, 12> kReserved{
      "v1",     "v3",  "s3", "ui", "metrics", "healthz",
      "readyz", "ais", "gs", "az", "ht",      "favicon.ico"};
  return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

Status check_bucket_name(std::string_view name) {
  if (name.empty() || name.size() > 64)
    return fail(Errc::invalid_argument, "bucket name '{}' has {} characters: 1 to 64 are allowed",
                name, name.size());
  if (!std::all_of(name.begin(), name.end(), is_name_char))
    return fail(Errc::invalid_argument,
                "bucket name '{}' may have letters, digits, '.', '_' and '-' only", name);
  if (name.front() == '.' || name.find("..") != std::string_view::npos)
    return fail(Errc::invalid_argument,
                "bucket name '{}' must not begin with a dot or have two in a row", name);
  if (is_reserved_word(name))
    return fail(Errc::invalid_argument, "bucket name '{}' is a word of the URL space of Tarn",
                name);
  return {};
}

Status check_object_name(std::string_view name) {
  if (name.empty()) return fail(Errc::invalid_argument, "an object name must not be empty");
  if (name.ends_with('/'))
    return fail(Errc::invalid_argument, "object name '{}' must not end with /", name);
  return check_components("object name", name);
}

Status check_prefix(std::string_view prefix) { return check_components("prefix", prefix); }

}  // namespace tarn::api
