#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>

#include "common/base/clock.h"

namespace tarn::target {

/// Limit of how often drives that were lost come back by themselves. One that goes again and again
/// costs more, in what is made anew elsewhere, than it is worth (docs/decisions/020). Pure; not
/// thread-safe.
class ReturnBudget {
 public:
  static constexpr std::size_t kPerDay = 5;
  /// True if the drive `id` may come back now.
  [[nodiscard]] bool allows(const std::string& id, BootTime now);
  void note(const std::string& id, BootTime now) { returns_[id].push_back(now); }

 private:
  std::map<std::string, std::deque<BootTime>> returns_;
};

}  // namespace tarn::target
