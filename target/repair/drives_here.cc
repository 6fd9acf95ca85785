#include "target/repair/drives_here.h"

#include <algorithm>
#include <utility>

namespace tarn::target {

DrivesHere::Change DrivesHere::look(const std::vector<std::shared_ptr<Drive>>& drives) {
  const auto before = std::exchange(here_, {});
  for (const auto& drive : drives)
    if (drive->in_service()) here_.insert(drive);
  const auto has_all = [](const auto& all, const auto& some) {
    return std::includes(all.begin(), all.end(), some.begin(), some.end(), std::owner_less<>());
  };
  return {.came = !has_all(before, here_), .went = !has_all(here_, before)};
}

}  // namespace tarn::target
