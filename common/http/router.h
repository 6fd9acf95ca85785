#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "common/api/request_path.h"
#include "common/http/exchange.h"

namespace tarn::http {

/// A request with its target taken apart, as handlers get it.
struct Request {
  Exchange& exchange;
  api::Target target;
  std::vector<std::string> parts;  ///< decoded segments that the pattern's '*' stand for

  [[nodiscard]] const RequestHead& head() const { return exchange.head(); }
  [[nodiscard]] const api::Query& query() const { return target.query; }
};

using RouteHandler = std::function<Task<Status>(Request&)>;
/// As the server's InstantHandler.
using InstantRouteHandler = std::function<bool(Request&)>;

/// One row of a program's route table.
struct Route {
  std::string_view methods;  ///< "GET HEAD"
  /// Literal segments and '*' (one segment), or a final '**' (all that is left, may be empty,
  /// slashes kept): "/v1/objects/*/**". Doubled slashes before literal segments and '*' are
  /// ignored. So are slashes at the end after a literal, but not after a '*': "/name/" is not
  /// "/name".
  std::string_view pattern;
  std::string_view summary;  ///< one line for people; docs/api.md lists the table
  RouteHandler handler;
  InstantRouteHandler instant = nullptr;  ///< tried before `handler`, when there is one
};

/// The first pattern that matches the path decides, with all rows that have the same: the one for
/// the method serves it, and there being none is 405 with Allow. So a catch-all further down takes
/// no path from those above it. not_found when no row has the path. OPTIONS is answered for every
/// path with a row, and for '*'; methods that HTTP has and Tarn does not are unsupported. Before a
/// handler is called, check_request_fields() has let the request through.
class Router {
 public:
  explicit Router(std::vector<Route> routes);
  Task<Status> operator()(Exchange& exchange) const;
  /// True if the row of this request has answered it without waiting. If not, no step has been
  /// taken.
  [[nodiscard]] bool answer_at_once(Exchange& exchange) const;

  struct Match {
    const Route* route = nullptr;    ///< null when rows have the path, but not the method
    std::vector<std::string> parts;  ///< see Request::parts
    std::string allow;               ///< then: the methods of those rows, "GET HEAD"
  };
  /// Match that operator() decides by. not_found when no row has the path; invalid_argument for
  /// malformed percent escapes. `path` is still encoded and without query.
  [[nodiscard]] Result<Match> match(std::string_view method, std::string_view path) const;
  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }

 private:
  static Task<Status> answer_options(Exchange& exchange, std::string_view methods);
  static Task<Status> refuse_method(Exchange& exchange, std::string_view methods);

  std::vector<Route> routes_;
  std::vector<std::vector<std::string_view>> words_;  // of each route's pattern, between slashes
};

}  // namespace tarn::http
