#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "common/api/bucket.h"
#include "common/base/error.h"

namespace tarn::api {

/// The query of a request, decoded, in the order it came. Keys are compared exactly.
class Query {
 public:
  /// The parameters of most requests fit without memory of their own.
  using Items = boost::container::small_vector<std::pair<std::string, std::string>, 4>;

  Query() = default;
  /// invalid_argument for malformed percent escapes and for more than 64 parameters.
  [[nodiscard]] static Result<Query> parse(std::string_view text);

  [[nodiscard]] std::optional<std::string_view> find(std::string_view key) const;
  /// The value, or "" when absent.
  [[nodiscard]] std::string_view get(std::string_view key) const;
  /// AIStore's booleans (docs/api.md); absent is false; invalid_argument for other words.
  [[nodiscard]] Result<bool> flag(std::string_view key) const;
  /// Replaces the value that get() returns; appends when there is none.
  void set(std::string_view key, std::string_view value);
  [[nodiscard]] const Items& items() const { return items_; }
  /// Encoded, without a leading '?'.
  [[nodiscard]] std::string encode() const;
  /// Appends one item as encode() writes it, after a '&' unless `out` ends in '?' or is empty.
  static void append_encoded(std::string& out, std::string_view key, std::string_view value);

 private:
  Items items_;
};

/// A request target taken apart: the part before '?' still encoded, and the query decoded.
struct Target {
  std::string_view path;  ///< raw, begins with '/'; scheme and authority of absolute-form are gone
  Query query;
};
/// `raw` must outlive the result. invalid_argument when it is neither origin-form nor
/// absolute-form, or the query is malformed.
[[nodiscard]] Result<Target> parse_target(std::string_view raw);

/// Bucket `name` with provider= and namespace= of the query. Checks provider and namespace, not the
/// name.
[[nodiscard]] Result<Bucket> bucket_from(std::string_view name, const Query& query);

/// "/v1/objects/<bucket>/<object>" with everything encoded that must be.
[[nodiscard]] std::string object_path(std::string_view bucket, std::string_view object);
void append_object_path(std::string& out, std::string_view bucket, std::string_view object);

}  // namespace tarn::api
