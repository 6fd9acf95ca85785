// Linked into released programs instead of fail_points.cc: no point does anything.

#include "common/base/fail_point.h"
#include "common/base/random.h"

namespace tarn::fail_point {

Status hit(Id) { return {}; }

bool is_off(Id) { return false; }

std::string identity(std::size_t length, std::string_view) { return random_id(length); }

std::string place_of(std::string_view path) { return std::string(path); }

}  // namespace tarn::fail_point
