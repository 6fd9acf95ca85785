#include "target/drive/hang_watch.h"

namespace tarn::target {

bool HangWatch::look(const Progress& progress) {
  bool works = progress.completed != completed_;
  if (progress.disk)
    works = progress.disk->in_flight == 0 || progress.disk->operations != operations_;
  completed_ = progress.completed;
  operations_ = progress.disk ? progress.disk->operations : 0;
  looks_ = works || progress.longest_run < kSlowSeconds ? 0 : looks_ + 1;
  // Counted in looks, not in seconds: a process that was stopped finds no drive guilty.
  return looks_ >= hang_after_.count() &&
         progress.longest_run >= static_cast<double>(hang_after_.count());
}

}  // namespace tarn::target
