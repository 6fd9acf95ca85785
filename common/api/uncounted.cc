#include "common/api/uncounted.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace tarn::api {

void Uncounted::take(const Uncounted& other) {
  drives = std::max(drives, other.drives);
  unseen = unseen || other.unseen;
  expected = expected || other.expected;
}

void to_json(nlohmann::json& out, const Uncounted& uncounted) {
  out = {
      {"drives", uncounted.drives}, {"unseen", uncounted.unseen}, {"expected", uncounted.expected}};
}

void from_json(const nlohmann::json& in, Uncounted& uncounted) {
  in.at("drives").get_to(uncounted.drives);
  in.at("unseen").get_to(uncounted.unseen);
  in.at("expected").get_to(uncounted.expected);
}

}  // namespace tarn::api
