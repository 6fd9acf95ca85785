#include "proxy/plain_paths.h"

#include "common/base/encoding.h"
#include "proxy/bucket/buckets.h"
#include "proxy/object/assign.h"
#include "proxy/pages.h"

namespace tarn::proxy {
namespace {

bool is_read(const http::Request& request) {
  return access_of(request.head().method) == Access::read;
}

/// True if there is a bucket of that name now. Reads go on from the last state when the meta store
/// is out of reach; a write could then go to the wrong place.
Task<Result<bool>> is_bucket(const Services& services, const http::Request& request,
                             std::string name) {
  if (!api::check_bucket_name(name)) co_return false;
  const auto found = co_await find_bucket(services, plain_bucket(std::move(name)));
  if (found) co_return true;
  const Errc code = found.error().code;
  if (code == Errc::bucket_not_found) co_return false;
  if (code == Errc::unavailable && is_read(request)) co_return false;
  co_return fail(found.error());
}

Error write_to_bucket(const http::Request& request, const std::string& name) {
  const bool is_delete = request.head().method == http::Method::del;
  return {Errc::conflict,
          is_delete
              ? fmt::format("'{}' is a bucket: it is destroyed by DELETE /v1/buckets/{} with "
                            "the body {{\"action\":\"destroy-bck\"}}, or by: tarn bucket rm {}",
                            name, name, name)
              : fmt::format("'{}' is a bucket: an object in it is /{}/NAME", name, name)};
}

Task<Status> send_to_page(http::Request& request, const std::string& name) {
  // Relative, as the links of the page: it may be read below a path prefix.
  std::string location = percent_encode(name) + "/";
  if (const auto query = request.query().encode(); !query.empty()) location += "?" + query;
  http::Response response(302, http::kText,
                          fmt::format("'{}' is a bucket: its page is {}\n", name, location));
  response.set("Location", location).set("Cache-Control", "no-store");
  const Status sent = co_await request.exchange.respond(std::move(response));
  co_return sent;
}

}  // namespace

Task<Status> serve_one_segment(const Services& services, ObjectHandler object,
                               http::Request& request, std::string name) {
  if (api::is_reserved_word(name))
    co_return fail(Errc::not_found, "no such path: /{} is a word of Tarn's own URL space", name);
  if (name.find('/') != std::string::npos)
    co_return fail(Errc::invalid_argument,
                   "the slash in '/{}' must not be escaped: it ends the bucket's name", name);
  CO_TRY(const bool bucket, co_await is_bucket(services, request, name));
  if (!bucket) {
    const Status served =
        co_await object(services, request, services.options.default_bucket, std::move(name));
    co_return served;
  }
  if (!is_read(request)) co_return fail(write_to_bucket(request, name));
  const Status sent = co_await send_to_page(request, name);
  co_return sent;
}

bool names_object(std::string_view rest) { return !rest.empty() && !rest.ends_with('/'); }

Task<Status> serve_plain_path(const Services& services, ObjectHandler object,
                              http::Request& request, std::string bucket, std::string rest) {
  if (!names_object(rest) && is_read(request)) {
    const Status sent = co_await bucket_page(services, request, std::move(bucket), std::move(rest));
    co_return sent;
  }
  if (rest.empty()) {
    CO_TRY(const bool exists, co_await is_bucket(services, request, bucket));
    if (exists) co_return fail(write_to_bucket(request, bucket));
  }
  const Status served = co_await object(services, request, std::move(bucket), std::move(rest));
  co_return served;
}

Task<Status> serve_easy_path(const Services& services, ObjectHandler object, http::Request& request,
                             std::string bucket, std::string rest) {
  if (rest.empty() && request.head().method != http::Method::put) {
    const Status done =
        co_await bucket_with_slash(services, request, std::move(bucket), std::move(rest));
    co_return done;
  }
  const Status served = co_await object(services, request, std::move(bucket), std::move(rest));
  co_return served;
}

}  // namespace tarn::proxy
