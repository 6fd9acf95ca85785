#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace tarn {

/// Seed of a test's random choices: TARN_TEST_SEED, which tests/run sets in the gate, or a new one.
/// Named in every message of the test.
inline std::uint32_t test_seed() {
  if (const char* text = std::getenv("TARN_TEST_SEED"))
    return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
  return std::random_device{}();
}

}  // namespace tarn
