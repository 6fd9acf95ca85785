#include "target/repair/losses_borne.h"

#include <algorithm>
#include <functional>

namespace tarn::target {

std::uint64_t losses_borne(std::vector<std::uint64_t> each, std::uint64_t left) {
  std::sort(each.begin(), each.end(), std::greater<>());
  std::uint64_t borne = 0;
  for (const std::uint64_t slices : each) {
    if (slices > left) break;
    left -= slices;
    ++borne;
  }
  return borne;
}

}  // namespace tarn::target
