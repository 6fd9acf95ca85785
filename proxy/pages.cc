#include "proxy/pages.h"

#include "common/api/inventory.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "proxy/core/staleness.h"
#include "proxy/object/assign.h"

namespace tarn::proxy {
namespace {

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::size_t kNamesPerPage = 1000;

std::string opening(std::string_view title) {
  const std::string heading = escape_html(title);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{} - "
      "Tarn</title></head>\n<body>\n<h1>{}</h1>\n",
      heading, heading);
}

constexpr std::string_view kClosing = "</body>\n</html>\n";

std::string path_of(const std::string& bucket, std::string_view name) {
  return "/" + percent_encode(bucket) + "/" + percent_encode(name, "/");
}

/// `href` is relative: the page may be read below a path prefix, through a reverse proxy.
std::string link(std::string_view href, std::string_view path, std::string_view text) {
  return fmt::format("<a href=\"{}\" data-href=\"{}\">{}</a>", escape_html(href), escape_html(path),
                     escape_html(text));
}

/// "a/b/" of "a/b/c/".
std::string parent_of(std::string prefix) {
  prefix.pop_back();
  const auto slash = prefix.rfind('/');
  return slash == std::string::npos ? "" : prefix.substr(0, slash + 1);
}

/// True for a browser. Programs that walk a page (curl, wget, rclone, fsspec) do not ask for
/// text/html, and expect all names on one page.
bool is_browser(const http::RequestHead& head) {
  return head.field("Accept").find("text/html") != std::string_view::npos;
}

http::Response head_of_page() {
  http::Response response(200, kHtml, "");
  response.set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
      .set("X-Content-Type-Options", "nosniff")
      .set("Referrer-Policy", "no-referrer")
      .set("Cache-Control", "no-store")
      .set("Vary", "Accept");
  return response;
}

/// Sends the first part of a directory, and to a program all further parts. An error between parts
/// resets the connection, so that the client sees an incomplete page.
Task<Status> send_directory(const Services& services, http::Request& request,
                            const api::Bucket& bucket, ListRequest wanted, api::MergedPage listed) {
  const bool paged = is_browser(request.head());
  std::string text = render_opening(bucket.name, wanted.prefix, listed);
  while (!paged && listed.more) {
    CO_TRY_OK(co_await request.exchange.write(text));
    CO_FAIL_POINT("page.more");
    wanted.after = listed.entries.back().name;
    CO_TRY(const KnownBucket known, co_await find_bucket(services, bucket));
    CO_TRY(listed, co_await list_entries(services, known, wanted));
    text = render_entries(bucket.name, wanted.prefix, listed);
  }
  text += render_closing(listed);
  CO_TRY_OK(co_await request.exchange.write(text));
  co_return co_await request.exchange.finish();
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

std::string render_opening(const std::string& bucket, const std::string& prefix,
                           const api::MergedPage& listed) {
  std::string out = opening(bucket + "/" + prefix) + "<table>\n";
  // No link above the bucket: wget -r would go on into all other buckets.
  if (!prefix.empty())
    out += "<tr><td>" + link("../", path_of(bucket, parent_of(prefix)), "../") +
           "</td><td></td></tr>\n";
  if (listed.entries.empty()) out += "<tr><td>Nothing here.</td><td></td></tr>\n";
  return out + render_entries(bucket, prefix, listed);
}

std::string render_entries(const std::string& bucket, const std::string& prefix,
                           const api::MergedPage& listed) {
  std::string out;
  for (const api::PackedEntry& entry : listed.entries) {
    const std::string size =
        entry.is_directory()
            ? ""
            : std::to_string(api::unpack_entry(entry.bytes).value_or(api::ListEntry()).size);
    const std::string_view name = std::string_view(entry.name).substr(prefix.size());
    out += "<tr><td>" + link(percent_encode(name, "/"), path_of(bucket, entry.name), name) +
           "</td><td align=\"right\">" + size + "</td></tr>\n";
  }
  return out;
}

std::string render_closing(const api::MergedPage& listed) {
  std::string out = "</table>\n";
  if (listed.more)
    out += fmt::format(
        "<form><input type=\"hidden\" name=\"after\" value=\"{}\"><button>next "
        "page</button></form>\n",
        escape_html(listed.entries.back().name));
  return out.append(kClosing);
}

Task<Status> root_page(const Services& services, http::Request& request) {
  const auto state = services.view.state();
  http::Response response = head_of_page();
  response.body = opening("Buckets") + "<ul>\n";
  for (const auto& [name, record] : state->bmd.buckets)
    if (name == plain_bucket(name.name) && !api::is_system_bucket(name))
      response.body +=
          "<li>" + link(percent_encode(name.name) + "/", path_of(name.name, ""), name.name + "/") +
          "</li>\n";
  response.body.append("</ul>\n").append(kClosing);
  CO_TRY_OK(mark_staleness(services, request.head(), response));
  const Status sent = co_await request.exchange.respond(std::move(response));
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
  CO_TRY(api::MergedPage listed, co_await list_entries(services, known, wanted));
  if (listed.entries.empty() && !prefix.empty() && wanted.after.empty())
    co_return fail(Errc::object_not_found,
                   "\"ais://{}/{}\" does not exist: no object's name begins with it", bucket,
                   prefix);
  http::Response head = head_of_page();
  CO_TRY_OK(mark_staleness(services, request.head(), head));
  CO_TRY_OK(co_await request.exchange.begin(std::move(head), std::nullopt));
  if (request.head().method == http::Method::head) co_return Status();
  const Status sent = co_await send_directory(services, request, plain_bucket(bucket),
                                              std::move(wanted), std::move(listed));
  co_return sent;
}

}  // namespace tarn::proxy
