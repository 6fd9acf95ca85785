#include "cli/base/patience.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>

#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

constexpr std::chrono::milliseconds kFirstPause{200};
constexpr std::chrono::milliseconds kPauseMax{5'000};
constexpr std::chrono::seconds kAskedForMax{30};
constexpr unsigned kTriesUnheard = 3;

bool may_pass(Errc code) {
  return code == Errc::unavailable || code == Errc::disconnected || code == Errc::timeout;
}

}  // namespace

void Patience::heard(const http::ClientResponse& answer) {
  heard_ = true;
  asked_for_.reset();
  // No node sends the other form of Retry-After, a date.
  const auto seconds = parse_u64(answer.field("Retry-After"));
  if (seconds)
    asked_for_ = std::chrono::seconds(
        std::min<std::uint64_t>(*seconds, static_cast<std::uint64_t>(kAskedForMax.count())));
}

void Patience::progressed() {
  failing_since_.reset();
  failures_ = 0;
}

Task<bool> Patience::again(Error error) {
  // The endpoint accepted the connection, so the answer may have been lost.
  const bool was_taken = error.code == Errc::disconnected && failures_ < kTriesUnheard;
  if ((!heard_ && !was_taken) || !may_pass(error.code)) co_return false;
  const auto now = std::chrono::steady_clock::now();
  if (!failing_since_) failing_since_ = now;
  auto pause = std::min(kPauseMax, kFirstPause * (1U << std::min(failures_, 8U)));
  if (asked_for_) pause = *asked_for_;
  asked_for_.reset();
  ++failures_;
  if (now + pause > *failing_since_ + limit_) co_return false;
  asio::steady_timer timer(co_await asio::this_coro::executor, pause);
  const auto [ignored] = co_await timer.async_wait(kTuple);
  co_return !ignored;
}

}  // namespace tarn::cli
