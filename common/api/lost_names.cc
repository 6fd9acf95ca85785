#include "common/api/lost_names.h"

#include <iterator>

#include <nlohmann/json.hpp>

namespace tarn::api {

void LostNames::add(std::string name) {
  if (name <= after_) return;
  if (bound_ && name > *bound_) {
    more_ = true;
    return;
  }
  names_.insert(std::move(name));
  if (names_.size() <= max_) return;
  names_.erase(std::prev(names_.end()));
  more_ = true;
}

void LostNames::add(const LostNames& other) {
  for (const std::string& name : other.names_) add(name);
  if (!other.more_) return;
  more_ = true;
  // Behind its last name the other one knows of more: what anybody has there may not be the next.
  const std::string& last = other.names_.empty() ? after_ : *other.names_.rbegin();
  if (!bound_ || last < *bound_) bound_ = last;
  names_.erase(names_.upper_bound(*bound_), names_.end());
}

void to_json(nlohmann::json& out, const LostNames& lost) {
  out = {{"lost_names", lost.names()}, {"lost_more", lost.more()}};
}

void from_json(const nlohmann::json& in, LostNames& lost) {
  lost = {};
  lost.names_ = in.value("lost_names", std::set<std::string>());
  lost.more_ = in.value("lost_more", false);
}

}  // namespace tarn::api
