#include "target/node/moves.h"

#include <utility>

#include "common/base/check.h"
#include "common/cluster/place/hrw.h"

namespace tarn::target {

void Moves::learn(std::shared_ptr<const cluster::Ownership> map) {
  const MutexLock lock(mutex_);
  const std::uint64_t version = map->version;
  if (!map_ || map_->version < version) map_ = std::move(map);
  TARN_CHECK(map_->version >= version);  // copies from replicas of older maps are refused
}

std::shared_ptr<const cluster::Ownership> Moves::map() const {
  const MutexLock lock(mutex_);
  return map_;
}

Status Moves::accepts(const std::string& uname, const cluster::ReplicaCount& count,
                      const cluster::CopySender& sender) const {
  const auto known = map();
  if (!known || known->version < sender.map_version)
    return fail(Errc::unavailable, "t[{}] hands names over by map {}, t[{}] knows {} yet",
                sender.id, sender.map_version, self_,
                known ? fmt::format("map {}", known->version) : "none");
  if (cluster::accepts_copy(*known, self_, cluster::placement_digest(uname), count, sender))
    return {};
  return fail(
      Errc::conflict,
      "t[{}] does not take a copy of {} from t[{}]: the sender acts by map {} and must be in "
      "map {}, which must place the name here",
      self_, uname, sender.id, sender.map_version, known->version);
}

bool Moves::Walk::superseded() const {
  TARN_CHECK(all_ != nullptr);
  const MutexLock lock(all_->mutex_);
  return all_->last_walk_ != number_ || (map_version_ != 0 && all_->map_->version != map_version_);
}

Moves::Walk::Walk(Walk&& other) noexcept
    : all_(std::exchange(other.all_, nullptr)),
      number_(other.number_),
      map_version_(other.map_version_),
      turn_(std::move(other.turn_)) {}

Moves::Walk::~Walk() {
  if (all_ == nullptr) return;
  const MutexLock lock(all_->mutex_);
  TARN_CHECK(all_->walks_ > 0);
  --all_->walks_;
}

Task<Result<Moves::Walk>> Moves::begin_rebalance(std::shared_ptr<const cluster::Ownership> map) {
  const std::uint64_t version = map->version;
  learn(std::move(map));
  std::uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    if (map_->version > version)
      co_return fail(Errc::conflict, "a rebalance by map {} is asked for, map {} is known here",
                     version, map_->version);
    if (walks_ > 0 && walk_map_ == version)
      co_return fail(Errc::conflict, "a rebalance by map {} runs here already", version);
    number = ++last_walk_;
    walk_map_ = version;
    ++walks_;
  }
  Walk walk(*this, number, version);
  walk.turn_ = co_await turns_.acquire("walk");
  co_return walk;
}

Task<Result<Moves::Walk>> Moves::begin_resilver() {
  std::uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    if (walks_ > 0)
      co_return fail(Errc::conflict, "a {} runs here: start the resilver when it has ended",
                     walk_map_ == 0 ? "resilver" : "rebalance");
    number = ++last_walk_;
    walk_map_ = 0;
    ++walks_;
  }
  Walk walk(*this, number, 0);
  walk.turn_ = co_await turns_.acquire("walk");
  co_return walk;
}

bool Moves::idle() const {
  const MutexLock lock(mutex_);
  return walks_ == 0;
}

}  // namespace tarn::target
