#include "common/base/backoff.h"

#include <algorithm>
#include <cstdint>

#include "common/base/random.h"

namespace tarn {

std::chrono::milliseconds with_jitter(std::chrono::milliseconds most) {
  const auto half = static_cast<std::uint64_t>(most.count()) / 2;
  return std::chrono::milliseconds(half + random_u64() % (half + 1));
}

std::chrono::milliseconds Backoff::next() {
  const auto out = with_jitter(most_);
  most_ = std::min(2 * most_, last_);
  return out;
}

}  // namespace tarn
