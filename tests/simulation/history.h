#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/simulation/world.h"

namespace tarn::simulation {

/// Value of a name: the number of the PUT that wrote it, 0 for nothing.
using Value = std::uint32_t;

/// One operation on one name, as its client saw it.
struct Operation {
  static constexpr Time kNever = std::numeric_limits<Time>::max();
  enum class Kind : std::uint8_t {
    put,     ///< writes `value`; a DELETE when that is 0
    create,  ///< writes `value` where there is nothing
    read,    ///< saw `value`
    exists   ///< saw that there is something: a create that was refused
  };
  Kind kind = Kind::read;
  Value value = 0;
  Time begin = 0;
  Time end = kNever;            ///< kNever: a write whose outcome is unknown
  bool without_effect = false;  ///< a write that was refused
};

/// True if the operations on one name, 64 at most, are those of a linearizable register that holds
/// nothing at first. A search after Wing and Gong with Lowe's memory of where it has been.
[[nodiscard]] bool linearizable(std::vector<Operation> operations);

[[nodiscard]] std::string describe(const std::vector<Operation>& operations);

}  // namespace tarn::simulation
