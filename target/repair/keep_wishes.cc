#include "target/repair/keep_wishes.h"

#include <boost/asio/steady_timer.hpp>

#include "common/base/event.h"
#include "common/base/gather.h"
#include "target/coded/piece_home.h"
#include "target/repair/coded_repair.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;
using Names = std::set<RepairWishes::Name>;

constexpr auto kKeepWishesLookEvery = 500ms;
constexpr std::chrono::seconds kKeepWishesAgainFirst{2};
constexpr std::chrono::seconds kKeepWishesAgainMost{60};
constexpr std::size_t kKeepWishesAtOnce = 4;

/// False: something can only be done later.
Task<bool> grant(TargetNode& node, RepairWishes::Name wish) {
  const auto state = node.view.state();
  const auto* bucket = state->bmd.find(wish.first);
  if (bucket == nullptr) co_return true;
  ObjectName name = name_in(*bucket, wish.second);
  const auto digest = cluster::placement_digest(name.uname);
  if (cluster::writer_of(*state->ownership->map, digest) != node.id) co_return true;
  co_return co_await repair_object(node, std::move(name));
}

/// Those that could not be granted.
Task<Names> grant_all(TargetNode& node, Names wishes) {
  Names left;
  while (!wishes.empty()) {
    std::vector<Task<bool>> some;
    std::vector<RepairWishes::Name> names;
    while (!wishes.empty() && some.size() < kKeepWishesAtOnce) {
      names.push_back(std::move(wishes.extract(wishes.begin()).value()));
      some.push_back(grant(node, names.back()));
    }
    const auto granted = co_await gather(std::move(some));
    for (std::size_t i = 0; i < names.size(); ++i)
      if (!granted[i]) left.insert(std::move(names[i]));
  }
  co_return left;
}

}  // namespace

Task<void> keep_wishes(TargetNode& node) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  Names left;  // to be tried again
  auto due = SteadyClock::now();
  std::chrono::seconds again = kKeepWishesAgainFirst;
  while (true) {
    timer.expires_at(next_tick(kKeepWishesLookEvery));
    co_await timer.async_wait(asio::use_awaitable);
    co_await tell_of_bad_pieces(node);
    if (!node.membership.lease().valid()) continue;
    Names wishes = node.repair_wishes.take();
    if (SteadyClock::now() >= due) wishes.merge(std::exchange(left, {}));
    if (wishes.empty()) continue;
    left.merge(co_await grant_all(node, std::move(wishes)));
    again = left.empty() ? kKeepWishesAgainFirst : std::min(again * 2, kKeepWishesAgainMost);
    if (!left.empty() && SteadyClock::now() >= due) due = SteadyClock::now() + again;
    // More are found by the next look through everything.
    while (left.size() > RepairWishes::kMax) left.erase(left.begin());
  }
}

}  // namespace tarn::target
