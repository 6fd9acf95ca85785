#pragma once

#include <cstdint>

namespace tarn::simulation {

/// splitmix64: one seed, one schedule, on every machine. Source: Steele, Lea, Flood 2014.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
    return z ^ (z >> 31U);
  }
  /// 0 to `most`, both possible.
  std::int64_t up_to(std::int64_t most) {
    return static_cast<std::int64_t>(next() % (static_cast<std::uint64_t>(most) + 1));
  }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + up_to(most - least);
  }
  bool one_in(std::int64_t n) { return up_to(n - 1) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace tarn::simulation
