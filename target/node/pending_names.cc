#include "target/node/pending_names.h"

namespace tarn::target {

void PendingNames::add(BucketId bucket, const std::string& object, Time now) {
  const MutexLock lock(mutex_);
  if (names_.size() < kMost)
    names_[{bucket, object}] = now;
  else
    looked_through_ = false;
}

void PendingNames::resolved(BucketId bucket, const std::string& object) {
  const MutexLock lock(mutex_);
  names_.erase({bucket, object});
}

std::vector<PendingNames::Name> PendingNames::due(Time until, Time now) {
  std::vector<Name> out;
  const MutexLock lock(mutex_);
  for (auto& [name, since] : names_)
    if (since <= until) {
      since = now;
      out.push_back({name.first, name.second, now});
    }
  return out;
}

void PendingNames::resolved(const Name& due) {
  const MutexLock lock(mutex_);
  const auto at = names_.find({due.bucket, due.object});
  if (at != names_.end() && at->second == due.since) names_.erase(at);
}

std::size_t PendingNames::count() const {
  const MutexLock lock(mutex_);
  return names_.size() + (looked_through_ ? 0 : 1);
}

}  // namespace tarn::target
