#include "common/cluster/store/attempts.h"

#include <chrono>

#include "common/base/pause.h"

namespace tarn::cluster {

Task<bool> Attempts::next() {
  if (made_ == kMost) co_return false;
  if (made_++ > 0) co_await pause_up_to(std::chrono::milliseconds(20));
  co_return true;
}

}  // namespace tarn::cluster
