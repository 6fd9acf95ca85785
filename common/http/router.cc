#include "common/http/router.h"

#include <algorithm>

#include <boost/container/small_vector.hpp>
#include <fmt/ranges.h>

#include "common/base/encoding.h"
#include "common/http/error_response.h"
#include "common/http/request_fields.h"

namespace tarn::http {
namespace {

void skip_slashes(std::string_view& path) {
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
}

std::string_view take_segment(std::string_view& path) {
  const auto segment = path.substr(0, path.find('/'));
  path.remove_prefix(segment.size());
  return segment;
}

bool is_word(std::string_view segment, std::string_view word) {
  if (segment == word) return true;
  return segment.find('%') != std::string_view::npos && percent_decode(segment) == word;
}

/// As many as patterns have fit without memory of their own.
using Stars = boost::container::small_vector<std::string_view, 4>;

/// True if `path` matches a pattern's `words`; then `stars` are the still encoded segments that its
/// stars stand for.
bool matches(const std::vector<std::string_view>& words, std::string_view path, Stars& stars) {
  stars.clear();
  bool after_star = false;
  for (const std::string_view word : words) {
    if (word == "**") {
      // One slash separates it from a name; further ones belong to the rest.
      if (after_star && path.starts_with('/'))
        path.remove_prefix(1);
      else
        skip_slashes(path);
      stars.push_back(path);
      return true;
    }
    skip_slashes(path);
    const auto segment = take_segment(path);
    after_star = word == "*";
    if (after_star) {
      if (segment.empty()) return false;
      stars.push_back(segment);
    } else if (!is_word(segment, word)) {
      return false;
    }
  }
  // "/v1/buckets/" is "/v1/buckets", but "/name/" is another thing than "/name".
  if (!after_star) skip_slashes(path);
  return path.empty();
}

std::vector<std::string_view> pattern_words(std::string_view pattern) {
  std::vector<std::string_view> words;
  for (skip_slashes(pattern); !pattern.empty(); skip_slashes(pattern))
    words.push_back(take_segment(pattern));
  return words;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Result<std::vector<std::string>> decode_parts(const Stars& stars) {
  std::vector<std::string> parts;
  parts.reserve(stars.size());
  for (const auto star : stars) {
    auto part = percent_decode(star);
    if (!part)
      return fail(Errc::invalid_argument, "malformed percent escape in the path '{}'", star);
    parts.push_back(std::move(*part));
  }
  return parts;
}

}  // namespace

Router::Router(std::vector<Route> routes) : routes_(std::move(routes)) {
  for (const Route& route : routes_) words_.push_back(pattern_words(route.pattern));
}

Result<Router::Match> Router::match(std::string_view method, std::string_view path) const {
  Match found;
  std::string_view pattern;
  Stars stars;
  for (std::size_t row = 0; row < routes_.size(); ++row) {
    const Route& route = routes_[row];
    if (!pattern.empty() && route.pattern != pattern) continue;
    if (!matches(words_[row], path, stars)) continue;
    pattern = route.pattern;
    if (!has_word(route.methods, method)) {
      for (const auto word : words_of(route.methods))
        if (!has_word(found.allow, word))
          found.allow += (found.allow.empty() ? "" : " ") + std::string(word);
      continue;
    }
    TRY(found.parts, decode_parts(stars));
    found.route = &route;
    return found;
  }
  if (found.allow.empty())
    return fail(Errc::not_found, "no such path: {} (docs/api.md lists them)", path);
  return found;
}

Task<Status> Router::operator()(Exchange& exchange) const {
  if (exchange.head().target == "*") {
    const Status answered =
        co_await answer_options(exchange, "GET HEAD PUT POST DELETE PATCH OPTIONS");
    co_return answered;
  }
  CO_TRY(api::Target target, api::parse_target(exchange.head().target));
  const RequestHead& head = exchange.head();
  if (head.method == Method::other)
    co_return fail(Errc::unsupported, "the method {} is not implemented", head.method_text);
  CO_TRY(Match found, match(head.method_text, target.path));
  if (found.route == nullptr) {
    found.allow += " OPTIONS";
    const Status answered = head.method == Method::options
                                ? co_await answer_options(exchange, found.allow)
                                : co_await refuse_method(exchange, found.allow);
    co_return answered;
  }
  CO_TRY_OK(check_request_fields(head, target.query));
  Request request{exchange, std::move(target), std::move(found.parts)};
  const Status served = co_await found.route->handler(request);
  co_return served;
}

bool Router::answer_at_once(Exchange& exchange) const {
  auto target = api::parse_target(exchange.head().target);
  if (!target) return false;
  auto found = match(exchange.head().method_text, target->path);
  if (!found || found->route == nullptr || !found->route->instant) return false;
  if (!check_request_fields(exchange.head(), target->query)) return false;
  Request request{exchange, std::move(*target), std::move(found->parts)};
  return found->route->instant(request);
}

Task<Status> Router::answer_options(Exchange& exchange, std::string_view methods) {
  Response response(200);
  response.set("Allow", fmt::format("{}", fmt::join(words_of(methods), ", ")));
  const Status sent = co_await exchange.respond(std::move(response));
  co_return sent;
}

Task<Status> Router::refuse_method(Exchange& exchange, std::string_view methods) {
  const std::string allow = fmt::format("{}", fmt::join(words_of(methods), ", "));
  const RequestHead& head = exchange.head();
  const Error error{Errc::method_not_allowed,
                    fmt::format("{} is not for this path: {} are", head.method_text, allow)};
  Response response = error_response(exchange, error);
  response.set("Allow", allow);
  const Status sent = co_await exchange.respond(std::move(response));
  co_return sent;
}

}  // namespace tarn::http
