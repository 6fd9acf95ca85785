#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"

namespace tarn::cli {

/// A user's choices for a bucket; empty is the cluster's default.
struct BucketChoices {
  std::string ec;        ///< "4+2": data slices and parity slices
  std::string layout;    ///< of `ec`: "whole" or "striped"
  int copies = 0;        ///< of each object
  std::string domain;    ///< of `copies`: "drive" or "node"
  std::string upstream;  ///< URL of the server that has the objects of a bucket with an upstream
  std::vector<std::string> set;  ///< "durability=strict": any property by its path
};

/// The properties as the API takes them, of a bucket of this provider; null when nothing was
/// chosen. invalid_argument for text of another form. The cluster refuses properties and values
/// that do not exist.
[[nodiscard]] Result<nlohmann::ordered_json> props_of(const BucketChoices& choices,
                                                      const std::string& provider = "ais");

}  // namespace tarn::cli
