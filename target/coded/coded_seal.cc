// The end of a coded write: the slices that have come to their holders become durable there. The
// caller that commits makes the record that names them (incoming.cc).

#include <algorithm>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "target/coded/coded_write.h"
#include "target/coded/former_slices.h"
#include "target/coded/slice_remake.h"

namespace tarn::target {
namespace {

Task<Status> seal_lane(const io::ObjectAttribute& object, std::shared_ptr<SliceLane> lane) {
  const Generation& generation = object.record.generation;
  CO_TRY_OK(co_await lane->seal(object, generation, generation, false));
  CO_FAIL_POINT("coded.one_sealed");
  co_return Status();
}

}  // namespace

Task<Result<io::Coding>> CodedWrite::seal(const io::ObjectAttribute& object) {
  CO_FAIL_POINT("coded.before_seal");
  co_await seal_lanes(object);
  if (!terms_.owner_only) co_await replace(object);
  const auto slices = static_cast<std::size_t>(
      std::count_if(sealed_.begin(), sealed_.end(), [](const auto& id) { return !id.empty(); }));
  const std::size_t sealed = slices + (full_copy_sealed_.empty() ? 0 : 1);
  const std::size_t all = wanted();
  const std::size_t enough_of_them = needed();
  TARN_CHECK(sealed <= all);
  if (terms_.strict && degraded_ && sealed >= enough_of_them) {
    co_await take_back(object.record.generation);
    co_return fail(enough().error());
  }
  if (sealed < enough_of_them) {
    co_await take_back(object.record.generation);
    co_return fail(Errc::unavailable, "{} of the {} slices of {} are stored, {} are needed: {}",
                   sealed, all, name_.object, enough_of_them, last_.message);
  }
  degraded_ = degraded_ || sealed < all;
  CO_FAIL_POINT("coded.before_record");
  co_return coding(object.record.generation, sealed_, full_copy_sealed_);
}

/// Seals all at the same time; a holder that fails is not asked again.
Task<void> CodedWrite::seal_lanes(const io::ObjectAttribute& object) {
  std::vector<std::size_t> slices;
  std::vector<Task<Status>> seals;
  for (const std::size_t i : good()) {
    if (!sealed_[i].empty()) continue;
    slices.push_back(i);
    seals.push_back(seal_lane(object, lanes_[i]));
  }
  const bool with_full_copy = full_copy_is_good() && full_copy_sealed_.empty();
  if (with_full_copy) seals.push_back(seal_lane(object, full_copy_));
  const auto results = co_await gather(std::move(seals));
  if (with_full_copy && results.back()) full_copy_sealed_ = node_.id;
  if (with_full_copy && !results.back()) last_ = results.back().error();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    auto& lane = lanes_[slices[i]];
    TARN_CHECK(lane != nullptr && lane->index() == slices[i]);
    if (results[i]) {
      sealed_[slices[i]] = lane->holder();
      continue;
    }
    last_ = results[i].error();
    refused_.insert(lane->holder());
    unsure_.emplace_back(lane->holder(), lane->index());
    lane = nullptr;
  }
}

/// Makes the slices that no holder has out of those that are sealed, for other targets, until no
/// target is left that takes one.
Task<void> CodedWrite::replace(const io::ObjectAttribute& object) {
  while (true) {
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      if (sealed_[i].empty()) lanes_[i] = nullptr;
    const auto places = plan();
    std::vector<SliceGoal> goals;
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      if (sealed_[i].empty() && !places[i].id.empty())
        goals.push_back({static_cast<std::uint8_t>(i), places[i].id, places[i].rank});
    if (goals.empty()) co_return;
    io::ObjectRecord version = object.record;
    version.coding = coding(object.record.generation, sealed_, "");
    // A client waits for the end of this write, and other writers for the name's lock.
    const auto made = co_await remake_slices(node_, name_, version, goals, TurnFor::client);
    for (std::size_t i = 0; i < goals.size(); ++i) {
      if (made && (*made)[i] != nullptr) {
        TARN_CHECK((*made)[i]->index() == goals[i].index);
        lanes_[goals[i].index] = (*made)[i];
      } else {
        refused_.insert(goals[i].holder);
      }
    }
    if (!made) {
      last_ = made.error();
      co_return;
    }
    co_await seal_lanes(object);
  }
}

/// No replica has, or will get, a record that names any of it.
Task<void> CodedWrite::take_back(Generation up_to) {
  const auto executor = co_await asio::this_coro::executor;
  for (std::size_t i = 0; i < sealed_.size(); ++i)
    drop_there(node_, executor, sealed_[i], {key_of(static_cast<std::uint8_t>(i)), up_to});
  drop_there(node_, executor, full_copy_sealed_, {key_of(io::kFullCopy), up_to});
  drop_unsure(executor, up_to);
}

void CodedWrite::drop_unsure(const asio::any_io_executor& executor, Generation up_to) {
  for (auto& [holder, index] : unsure_)
    drop_there(node_, executor, std::move(holder), {key_of(index), up_to});
  unsure_.clear();
}

}  // namespace tarn::target
