#include "common/api/download.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/base/settings.h"

namespace tarn::api {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kLinkSchemes{"http", "https", "s3", "gs", "az"};
constexpr std::size_t kHeadersMax = 64;
constexpr std::size_t kLinkBytesMax = 8192;

/// Fields of all types.
constexpr std::array<std::string_view, 9> kBaseFields{
    "type",   "bucket",  "description", "timeout", "progress_interval",
    "limits", "headers", "etl_name",    "etl_args"};

/// Fields of one type beside those.
std::span<const std::string_view> download_fields(std::string_view type) {
  static constexpr std::array<std::string_view, 3> single{"object_name", "link", "from_remote"};
  static constexpr std::array<std::string_view, 2> range{"template", "subdir"};
  static constexpr std::array<std::string_view, 1> multi{"objects"};
  static constexpr std::array<std::string_view, 3> backend{"prefix", "suffix", "synchronize"};
  if (type == "single") return single;
  if (type == "range") return range;
  if (type == "multi") return multi;
  if (type == "backend") return backend;
  return {};
}

tl::unexpected<Error> download_wrong(std::string_view what) {
  return fail(Errc::invalid_argument, "download: {}", what);
}

/// The member of that name; null when there is none.
const json& download_member(const json& body, std::string_view name) {
  static const json none;
  const auto found = body.find(name);
  return found == body.end() ? none : *found;
}

Result<std::string> download_text(const json& body, std::string_view name) {
  const json& value = download_member(body, name);
  if (value.is_null()) return std::string();
  if (!value.is_string()) return download_wrong(fmt::format("\"{}\" is no string", name));
  return value.get<std::string>();
}

Result<bool> download_flag(const json& body, std::string_view name) {
  const json& value = download_member(body, name);
  if (value.is_null()) return false;
  if (!value.is_boolean())
    return download_wrong(fmt::format("\"{}\" is neither true nor false", name));
  return value.get<bool>();
}

Result<std::uint64_t> download_number(const json& limits, std::string_view name) {
  const json& value = download_member(limits, name);
  if (value.is_null()) return 0;
  if (!value.is_number_unsigned())
    return download_wrong(fmt::format("\"limits.{}\" is no whole number of 0 or more", name));
  return value.get<std::uint64_t>();
}

Result<std::chrono::milliseconds> download_duration(const json& body, std::string_view name) {
  TRY(const std::string text, download_text(body, name));
  if (text.empty()) return std::chrono::milliseconds(0);
  const auto parsed = parse_duration(text);
  if (!parsed) return download_wrong(fmt::format("\"{}\": {}", name, parsed.error().message));
  return *parsed;
}

Status check_download_fields(const json& body, std::string_view type) {
  const auto own = download_fields(type);
  for (const auto& [key, value] : body.items()) {
    if (std::find(kBaseFields.begin(), kBaseFields.end(), key) != kBaseFields.end()) continue;
    if (std::find(own.begin(), own.end(), key) != own.end()) continue;
    if (key == "sync" && type == "backend")
      return download_wrong("\"sync\" is called \"synchronize\"");
    return download_wrong(fmt::format("type {} has no field \"{}\"", type, printable(key)));
  }
  for (const char* later : {"etl_name", "etl_args"})
    if (const json& value = download_member(body, later); !value.is_null() && value != "")
      return fail(Errc::unsupported, "download: \"{}\": transforms belong to later work", later);
  return {};
}

bool is_token(std::string_view name) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char each) {
    return (each >= '0' && each <= '9') || (each >= 'a' && each <= 'z') ||
           (each >= 'A' && each <= 'Z') || kOthers.find(each) != std::string_view::npos;
  });
}

/// Fields that frame a request, or by which the target itself asks for the bytes that it needs.
bool is_own_field(std::string_view name) {
  for (const char* own :
       {"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "TE",
        "Trailer", "Expect", "Range", "If-Match", "If-None-Match", "If-Range", "If-Modified-Since",
        "If-Unmodified-Since", "Accept-Encoding", "Proxy-Authorization", "Proxy-Connection"})
    if (iequals(name, own)) return true;
  return false;
}

Status add_header(const std::string& name, const json& value, DownloadTerms::Headers& out) {
  if (!is_token(name))
    return download_wrong(fmt::format("\"{}\" is no name of a header", printable(name)));
  if (is_own_field(name))
    return download_wrong(fmt::format("the header {} is the cluster's own to send", name));
  if (!value.is_string())
    return download_wrong(fmt::format("the value of header {} is no string", name));
  const auto& text = value.get_ref<const std::string&>();
  const bool is_clean = std::all_of(text.begin(), text.end(), [](char each) {
    return each == '\t' || (each >= ' ' && each <= '~');
  });
  if (!is_clean || trim(text) != text)
    return download_wrong(
        fmt::format("the value of header {} has bytes that no header can have", name));
  out.emplace_back(name, text);
  if (out.size() > kHeadersMax)
    return download_wrong(fmt::format("more than {} headers", kHeadersMax));
  return {};
}

/// {"Authorization": "Bearer x"}, or, as Go has it, {"Authorization": ["Bearer x"]}.
Result<DownloadTerms::Headers> headers_in(const json& body) {
  DownloadTerms::Headers out;
  const json& value = download_member(body, "headers");
  if (value.is_null()) return out;
  if (!value.is_object()) return download_wrong("\"headers\" is no object of names and values");
  for (const auto& [name, each] : value.items()) {
    if (!each.is_array()) {
      TRY_OK(add_header(name, each, out));
      continue;
    }
    for (const json& one : each) TRY_OK(add_header(name, one, out));
  }
  return out;
}

Status take_limits(const json& body, DownloadTerms& out) {
  const json& limits = download_member(body, "limits");
  if (limits.is_null()) return {};
  if (!limits.is_object()) return download_wrong("\"limits\" is no object");
  for (const auto& [key, value] : limits.items())
    if (key != "connections" && key != "bytes_per_hour")
      return download_wrong(
          fmt::format("\"limits\" has no field \"{}\": there are connections and bytes_per_hour",
                      printable(key)));
  TRY(out.connections, download_number(limits, "connections"));
  TRY(out.bytes_per_hour, download_number(limits, "bytes_per_hour"));
  if (out.connections > DownloadRequest::kConnectionsMax)
    return download_wrong(
        fmt::format("\"limits.connections\" is at most {}", DownloadRequest::kConnectionsMax));
  return {};
}

Result<DownloadItem> download_item(std::string name, std::string link) {
  const auto parsed = parse_link(link);
  if (!parsed) return fail(parsed.error());
  if (name.empty()) name = parsed->name;
  if (name.empty())
    return download_wrong(
        fmt::format("the link {} does not end in a name: say under which name its "
                    "object is to be stored",
                    parsed->display()));
  if (const Status usable = check_object_name(name); !usable)
    return download_wrong(fmt::format("{} (link {})", usable.error().message, parsed->display()));
  return DownloadItem{std::move(name), std::move(link)};
}

Status take_single(const json& body, DownloadRequest& out) {
  TRY(const std::string name, download_text(body, "object_name"));
  TRY(const std::string link, download_text(body, "link"));
  TRY(const bool from_remote, download_flag(body, "from_remote"));
  if (from_remote) {
    if (!link.empty()) return download_wrong("\"link\" and \"from_remote\" exclude each other");
    TRY_OK(check_object_name(name));
    out.items.push_back({name, ""});
    out.description = fmt::format("{} of upstream -> {}", name, out.bucket.display());
    return {};
  }
  if (link.empty()) return download_wrong("type single needs a \"link\"");
  TRY(DownloadItem item, download_item(name, link));
  out.description =
      fmt::format("{} -> {}/{}", parse_link(link)->display(), out.bucket.display(), item.name);
  out.items.push_back(std::move(item));
  return {};
}

/// Braces belong to the last part of the path: those elsewhere would make one name for many files.
Status check_link_ranges(std::string_view text) {
  const auto brace = text.find('{');
  if (brace == std::string_view::npos)
    return download_wrong(
        "\"template\" has no range such as {0000..0999}: one link is of type single");
  const auto query = text.find('?');
  const auto slash = text.substr(0, query).rfind('/');
  const auto last_brace = text.rfind('}');
  const bool is_in_name = slash != std::string_view::npos && brace > slash &&
                          (query == std::string_view::npos || last_brace < query);
  if (is_in_name) return {};
  return download_wrong(
      "\"template\" has a range outside of the last part of its path, by which objects are named: "
      "several files would have one name. Use type multi, which names each");
}

Status take_range(const json& body, DownloadRequest& out) {
  TRY(const std::string text, download_text(body, "template"));
  if (text.empty()) return download_wrong("type range needs a \"template\"");
  TRY(out.subdir, download_text(body, "subdir"));
  while (out.subdir.ends_with('/')) out.subdir.pop_back();
  if (!out.subdir.empty()) {
    TRY_OK(check_object_name(out.subdir));
    out.subdir += '/';
  }
  TRY_OK(check_link_ranges(text));
  const auto pattern = NameTemplate::parse(text);
  if (!pattern) return download_wrong(fmt::format("\"template\": {}", pattern.error().message));
  out.pattern = *pattern;
  const auto count = out.pattern->count();
  if (!count) return download_wrong("\"template\" has no range such as {0000..0999}");
  for (const std::uint64_t index : {std::uint64_t{0}, *count - 1}) {
    TRY(const DownloadItem item, download_item("", out.pattern->name(index)));
    TRY_OK(check_object_name(out.subdir + item.name));
  }
  const auto query = text.find('?');
  out.description =
      fmt::format("{} -> {}/{}", text.substr(0, query), out.bucket.display(), out.subdir);
  return {};
}

Status take_multi(const json& body, DownloadRequest& out) {
  const json& objects = download_member(body, "objects");
  if (!objects.is_object() && !objects.is_array())
    return download_wrong(
        "type multi needs \"objects\": a map of names to links, or a list of links");
  std::set<std::string> names;
  for (const auto& [key, value] : objects.items()) {
    if (!value.is_string()) return download_wrong("\"objects\" has a link that is no string");
    if (objects.is_object()) TRY_OK(check_object_name(key));
    TRY(DownloadItem item,
        download_item(objects.is_object() ? key : std::string(), value.get<std::string>()));
    if (!names.insert(item.name).second)
      return download_wrong(
          fmt::format("two links are for one name, {}: send a map of names to links", item.name));
    out.items.push_back(std::move(item));
  }
  if (out.items.empty()) return download_wrong("\"objects\" is empty");
  out.description = fmt::format("{} links -> {}", out.items.size(), out.bucket.display());
  return {};
}

Status take_backend(const json& body, DownloadRequest& out) {
  TRY(out.prefix, download_text(body, "prefix"));
  TRY(out.suffix, download_text(body, "suffix"));
  TRY(out.terms.synchronize, download_flag(body, "synchronize"));
  TRY_OK(check_prefix(out.prefix));
  out.description =
      fmt::format("{}/{}*{} of upstream", out.bucket.display(), out.prefix, out.suffix);
  return {};
}

Status take_goal(const json& body, Bucket& out) {
  const json& value = download_member(body, "bucket");
  if (!value.is_object() || !value.contains("name"))
    return download_wrong("\"bucket\" is missing: {\"name\":\"photos\"}");
  try {
    out = value.get<Bucket>();
  } catch (const json::exception&) {
    return download_wrong("\"bucket\" names no bucket");
  }
  TRY(out.provider, canonical_provider(out.provider));
  return check_bucket_name(out.name);
}

}  // namespace

void to_json(json& out, const DownloadTerms& terms) {
  out = {{"connections", terms.connections},
         {"bytes_per_hour", terms.bytes_per_hour},
         {"timeout_ms", terms.timeout.count()},
         {"headers", json(terms.headers)},
         {"synchronize", terms.synchronize}};
}

void from_json(const json& in, DownloadTerms& terms) {
  in.at("connections").get_to(terms.connections);
  in.at("bytes_per_hour").get_to(terms.bytes_per_hour);
  terms.timeout = std::chrono::milliseconds(in.at("timeout_ms").get<std::int64_t>());
  in.at("headers").get_to(terms.headers);
  in.at("synchronize").get_to(terms.synchronize);
}

bool DownloadRequest::is_backend() const {
  return !pattern && (items.empty() || items.front().link.empty());
}

std::optional<std::uint64_t> DownloadRequest::count() const {
  if (pattern) return pattern->count();
  if (items.empty()) return std::nullopt;
  return items.size();
}

DownloadItem DownloadRequest::item(std::uint64_t index) const {
  if (!pattern) return items.at(index);
  std::string link = pattern->name(index);
  const auto parsed = parse_link(link);
  return {subdir + (parsed ? parsed->name : ""), std::move(link)};
}

std::vector<std::string> DownloadRequest::servers() const {
  std::vector<std::string> out;
  std::set<std::string> seen;
  const auto add = [&](const std::string& link) {
    const auto parsed = parse_link(link);
    if (parsed && seen.insert(parsed->server).second) out.push_back(link);
  };
  if (pattern) add(pattern->name(0));
  for (const DownloadItem& each : items)
    if (!each.link.empty()) add(each.link);
  return out;
}

Result<DownloadRequest> parse_download(const json& body) {
  if (!body.is_object())
    return download_wrong("the body is no JSON object such as {\"type\":\"single\"}");
  TRY(const std::string type, download_text(body, "type"));
  if (download_fields(type).empty())
    return download_wrong(fmt::format(
        "\"type\" is '{}': there are single, range, multi and backend", printable(type)));
  TRY_OK(check_download_fields(body, type));
  DownloadRequest out;
  TRY_OK(take_goal(body, out.bucket));
  TRY_OK(take_limits(body, out.terms));
  TRY(out.terms.timeout, download_duration(body, "timeout"));
  TRY_OK(download_duration(body, "progress_interval"));
  TRY(out.terms.headers, headers_in(body));
  TRY(std::string description, download_text(body, "description"));
  if (description.size() > DownloadRequest::kDescriptionBytesMax)
    return download_wrong(fmt::format("\"description\" is longer than {} bytes",
                                      DownloadRequest::kDescriptionBytesMax));
  if (type == "single") TRY_OK(take_single(body, out));
  if (type == "range") TRY_OK(take_range(body, out));
  if (type == "multi") TRY_OK(take_multi(body, out));
  if (type == "backend") TRY_OK(take_backend(body, out));
  if (!description.empty()) out.description = std::move(description);
  const auto asked = out.servers();
  const bool has_web = std::any_of(asked.begin(), asked.end(),
                                   [](const auto& link) { return parse_link(link)->is_web(); });
  if (!out.terms.headers.empty() && !has_web)
    return download_wrong("\"headers\" go to web servers alone, and none is asked");
  return out;
}

std::string Link::display() const {
  return server + (is_web() ? "" : "/") + path.substr(0, is_web() ? path.find('?') : path.npos);
}

Result<Link> parse_link(std::string_view text) {
  const std::string shown = printable(text.substr(0, std::min<std::size_t>(text.find('?'), 200)));
  const auto colon = text.find("://");
  Link out;
  if (colon != std::string_view::npos) out.scheme = to_lower(text.substr(0, colon));
  if (std::find(kLinkSchemes.begin(), kLinkSchemes.end(), out.scheme) == kLinkSchemes.end())
    return download_wrong(
        fmt::format("'{}' is no link: those begin with http://, https://, s3://, gs:// or "
                    "az://",
                    shown));
  if (text.size() > kLinkBytesMax)
    return download_wrong(
        fmt::format("the link {}.. is longer than {} bytes", shown, kLinkBytesMax));
  const std::string_view rest = text.substr(colon + 3);
  const auto end = std::min(rest.find_first_of(out.is_web() ? "/?#" : "/"), rest.size());
  const std::string_view host = rest.substr(0, end);
  if (host.empty()) return download_wrong(fmt::format("the link {} names no server", shown));
  if (host.find('@') != std::string_view::npos)
    return download_wrong(
        fmt::format("a link has credentials in it: send them as a header "
                    "(Authorization), since links are shown to people"));
  out.server = out.scheme + "://" + (out.is_web() ? to_lower(host) : std::string(host));
  out.path = rest.substr(end);
  if (!out.is_web()) {
    TRY_OK(check_bucket_name(host));
    out.path.erase(0, 1);
    TRY_OK(check_object_name(out.path));
    out.name = out.path.substr(out.path.rfind('/') + 1);
    return out;
  }
  if (out.path.find('#') != std::string::npos)
    return download_wrong(
        fmt::format("the link {} has a fragment (#...), which is nothing that a server is "
                    "asked for: leave it out",
                    shown));
  const bool is_clean =
      std::all_of(text.begin(), text.end(), [](char each) { return each > ' ' && each <= '~'; });
  if (!is_clean)
    return download_wrong(
        fmt::format("the link {} has a space or other bytes that must be "
                    "percent-encoded (%20)",
                    shown));
  if (!out.path.starts_with('/')) out.path.insert(0, 1, '/');
  const std::string_view path = std::string_view(out.path).substr(0, out.path.find('?'));
  const auto decoded = percent_decode(path.substr(path.rfind('/') + 1));
  if (!decoded)
    return download_wrong(fmt::format("the link {} has a '%' that encodes nothing", shown));
  out.name = *decoded;
  return out;
}

Result<DownloadQuery> parse_download_query(std::string_view body) {
  DownloadQuery out;
  if (trim(body).empty()) return out;
  const json in = json::parse(body, nullptr, false);
  if (!in.is_object())
    return download_wrong("the body is no JSON object such as {\"id\":\"dnl-...\"}");
  for (const auto& [key, value] : in.items())
    if (key != "id" && key != "regex" && key != "only_active_tasks")
      return download_wrong(
          fmt::format("there is no field \"{}\": there are id, regex and "
                      "only_active_tasks",
                      printable(key)));
  TRY(out.id, download_text(in, "id"));
  TRY(out.regex, download_text(in, "regex"));
  TRY(out.only_active, download_flag(in, "only_active_tasks"));
  if (!out.id.empty() && !out.regex.empty())
    return download_wrong("\"id\" and \"regex\" exclude each other");
  return out;
}

}  // namespace tarn::api
