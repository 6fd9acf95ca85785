#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "target/coded/slice_source.h"
#include "target/node/node.h"

namespace tarn::target {

/// The next blocks of one slice on their way. The caller may stop waiting: the call then goes on by
/// itself, since a drive that hangs cannot be interrupted, and ends with its drive or its
/// connection. For one event loop.
struct SliceCall {
  std::string holder;
  SliceKey key;
  ec::Layout layout;    ///< of the object
  ec::Stripes rest;     ///< to be asked for yet, when the slice is to be opened
  ec::Stripes missing;  ///< asked for now
  TurnFor purpose;
  bool unless_slow;  ///< timeout when the slice is on a slow drive
  /// Null: it is to be opened first. The caller's again after a good result.
  std::unique_ptr<SliceSource> source;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration took{};
  std::optional<Status> result = {};  ///< none: under way
};

/// Starts it, as one of TargetNode::aside. `bell` is cancelled when it has a result.
void start(TargetNode& node, const std::shared_ptr<SliceCall>& call,
           std::shared_ptr<asio::steady_timer> bell);

/// Returns the time after which a slice is late, so that another one is asked for instead
/// (docs/reliability.md C11). It is 4 times what half of the other slices took, and no less than
/// kLateAtLeast. It is kLateAlone while fewer than half of all `asked` have come. `took` is put in
/// order. Pure.
[[nodiscard]] std::chrono::steady_clock::duration late_after(
    std::span<std::chrono::steady_clock::duration> took, std::size_t asked);
inline constexpr std::chrono::milliseconds kLateAtLeast{500};
inline constexpr std::chrono::milliseconds kLateAlone{2'000};

}  // namespace tarn::target
