#include "common/api/first_names.h"

#include <iterator>

#include <nlohmann/json.hpp>

namespace tarn::api {

void FirstNames::add(std::string name) {
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

void FirstNames::add(const FirstNames& other) {
  for (const std::string& name : other.names_) add(name);
  if (!other.more_) return;
  more_ = true;
  // After its last name the other one has further names: a name from there may not be the next.
  const std::string& last = other.names_.empty() ? after_ : *other.names_.rbegin();
  if (!bound_ || last < *bound_) bound_ = last;
  names_.erase(names_.upper_bound(*bound_), names_.end());
}

void to_json(nlohmann::json& out, const FirstNames& names) {
  out = {{"names", names.names()}, {"more", names.more()}};
}

void from_json(const nlohmann::json& in, FirstNames& names) {
  names = {};
  in.at("names").get_to(names.names_);
  in.at("more").get_to(names.more_);
}

}  // namespace tarn::api
