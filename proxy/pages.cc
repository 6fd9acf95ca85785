#include "proxy/pages.h"

#include "common/base/encoding.h"
#include "proxy/assign.h"
#include "proxy/staleness.h"

namespace tarn::proxy {
namespace {

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::size_t kNamesPerPage = 1000;

std::string document(std::string_view title, std::string_view body) {
  const std::string heading = escape_html(title);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{} - "
      "Tarn</title></head>\n<body>\n<h1>{}</h1>\n{}</body>\n</html>\n",
      heading, heading, body);
}

std::string path_of(const std::string& bucket, std::string_view name) {
  return "/" + percent_encode(bucket) + "/" + percent_encode(name, "/");
}

std::string link(std::string_view href, std::string_view text) {
  return fmt::format("<a href=\"{}\">{}</a>", escape_html(href), escape_html(text));
}

/// "a/b/" of "a/b/c/".
std::string parent_of(std::string prefix) {
  prefix.pop_back();
  const auto slash = prefix.rfind('/');
  return slash == std::string::npos ? "" : prefix.substr(0, slash + 1);
}

Task<Status> answer_page(const Services& services, http::Request& request, std::string html) {
  http::Response response(200, kHtml, std::move(html));
  response.set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
      .set("X-Content-Type-Options", "nosniff")
      .set("Referrer-Policy", "no-referrer")
      .set("Cache-Control", "no-store");
  CO_TRY_OK(mark_staleness(services, request.head(), response));
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string render_directory(const std::string& bucket, const std::string& prefix,
                             const api::MergedPage& listed) {
  std::string body = "<table>\n";
  // No link above the bucket: wget -r would go on into all others.
  if (!prefix.empty())
    body += "<tr><td>" + link(path_of(bucket, parent_of(prefix)), "../") + "</td><td></td></tr>\n";
  for (const api::PackedEntry& entry : listed.entries) {
    const std::string size =
        entry.is_directory()
            ? ""
            : std::to_string(api::unpack_entry(entry.bytes).value_or(api::ListEntry()).size);
    body += "<tr><td>" + link(path_of(bucket, entry.name), entry.name.substr(prefix.size())) +
            "</td><td align=\"right\">" + size + "</td></tr>\n";
  }
  body += "</table>\n";
  if (listed.entries.empty()) body += "<p>Nothing here.</p>\n";
  if (listed.more)
    body += "<p>" +
            link(path_of(bucket, prefix) + "?after=" + percent_encode(listed.entries.back().name),
                 "next page") +
            "</p>\n";
  return document(bucket + "/" + prefix, body);
}

Task<Status> root_page(const Services& services, http::Request& request) {
  const auto state = services.view.state();
  std::string body = "<ul>\n";
  for (const auto& [name, record] : state->bmd.buckets)
    if (name == plain_bucket(name.name))
      body += "<li>" + link(path_of(name.name, ""), name.name + "/") + "</li>\n";
  body += "</ul>\n";
  const Status sent = co_await answer_page(services, request, document("Buckets", body));
  co_return sent;
}

Task<Status> bucket_page(const Services& services, http::Request& request, std::string bucket,
                         std::string prefix) {
  CO_TRY_OK(api::check_bucket_name(bucket));
  CO_TRY_OK(api::check_prefix(prefix));
  CO_TRY(const KnownBucket known, co_await find_bucket(services, plain_bucket(bucket)));
  ListRequest wanted;
  wanted.prefix = prefix;
  wanted.after = request.query().get("after");
  wanted.limit = kNamesPerPage;
  wanted.recursive = false;
  CO_TRY(const api::MergedPage listed, co_await list_entries(services, known, wanted));
  if (listed.entries.empty() && !prefix.empty() && wanted.after.empty())
    co_return fail(Errc::object_not_found,
                   "\"ais://{}/{}\" does not exist: no object's name begins with it", bucket,
                   prefix);
  const Status sent =
      co_await answer_page(services, request, render_directory(bucket, prefix, listed));
  co_return sent;
}

}  // namespace tarn::proxy
