#include "target/drives/return_budget.h"

#include <chrono>

namespace tarn::target {

bool ReturnBudget::allows(const std::string& id, BootTime now) {
  auto& times = returns_[id];
  while (!times.empty() && now - times.front() >= std::chrono::hours(24)) times.pop_front();
  return times.size() < kPerDay;
}

}  // namespace tarn::target
