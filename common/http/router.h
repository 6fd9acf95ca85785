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

/// One row of a program's route table.
struct Route {
  std::string_view methods;  ///< "GET HEAD"
  /// Literal segments and '*' (one segment), or a final '**' (all that is left, may be empty, slashes
  /// kept): "/v1/objects/*/**". Doubled slashes between literal segments are ignored.
  std::string_view pattern;
  std::string_view summary;  ///< one line for people; docs/api.md lists the table
  RouteHandler handler;
};

/// Finds the first row that matches path and method. 405 with Allow when only the method is wrong;
/// not_found when no row has the path.
class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}
  Task<Status> operator()(Exchange& exchange) const;
  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace tarn::http
