#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/place.h"
#include "cli/base/templates.h"
#include "common/base/error.h"

namespace tarn::cli {

/// Name of the object that the shard of a number becomes: "http://host/dataset-%06d.tar" or
/// "BUCKET/dataset-%06d.tar" have a name for every number, a template such as
/// "BUCKET/dataset-@000100.tar" for as many as it stands for.
class ShardNames {
 public:
  /// invalid_argument when `where` has no running number, or it stands in the bucket's name.
  [[nodiscard]] static Result<ShardNames> parse(const std::string& where);

  /// Empty when `where` was no URL.
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  /// None when the names of the template are used up. Names beyond 10^18 are none either.
  [[nodiscard]] std::optional<Place> place(std::uint64_t number) const;

 private:
  std::string endpoint_;
  Place pattern_;
  std::optional<NumberedName> numbered_;
  std::vector<std::string> names_;
};

}  // namespace tarn::cli
