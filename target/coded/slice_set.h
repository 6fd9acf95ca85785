#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ec/decoder.h"
#include "target/coded/slice_call.h"
#include "target/coded/slice_source.h"
#include "target/node/node.h"

namespace tarn::target {

/// The slices of one object that are read at the same time, stripe by stripe: k of them, or those
/// that are wanted. One whose holder fails, or that is not what was stored, is left out: another
/// one takes its place from that stripe on. One that is late (late_after()), or on a drive known to
/// be slow, is passed over in the same way while there is another one. For one coroutine; `node`
/// must outlive it.
class SliceSet {
 public:
  /// `coding`: the targets that have them. `wanted`: if all of these are there they are enough
  /// (ec/code.h).
  SliceSet(TargetNode& node, ObjectName name, io::Coding coding, const ec::Layout& layout,
           ec::Stripes stripes, ec::SliceNumbers wanted, TurnFor purpose = TurnFor::client)
      : node_(node),
        name_(std::move(name)),
        coding_(std::move(coding)),
        layout_(layout),
        end_(stripes.first + stripes.count),
        wanted_(wanted),
        purpose_(purpose) {}

  /// Adds to `into` the blocks of its present stripe, as many as are needed. Stripes in their
  /// order. They stay until the stripe after is asked for. unavailable when fewer than k slices are
  /// left.
  Task<Status> fill(ec::StripeReader& into);
  /// After an error of fill(): the same slices as a newer record has them. Those that have other
  /// holders there are tried again, there; true if there are any.
  bool move_to(io::Coding coding);
  /// True if fewer than k would be left even if all holders that are away came back. The other
  /// holders reported that they do not have theirs, or have something else, or are no longer
  /// members.
  [[nodiscard]] bool lost() const;
  /// The slices that were not what was stored.
  [[nodiscard]] ec::SliceNumbers bad() const { return bad_; }

 private:
  Status choose();
  void next_batch(std::uint64_t stripe);
  Task<void> bring(std::uint64_t stripe);
  void start_calls(std::uint64_t stripe);
  bool collect();
  [[nodiscard]] ec::SliceNumbers late(ec::SliceNumbers waiting);
  Status add_to(ec::StripeReader& into);
  void leave_out(std::size_t slice, const Error& why);

  TargetNode& node_;
  const ObjectName name_;
  io::Coding coding_;
  const ec::Layout layout_;
  const std::uint64_t end_;  // after the last stripe
  const ec::SliceNumbers wanted_;
  const TurnFor purpose_;
  std::array<std::unique_ptr<SliceSource>, ec::kSlicesMax> sources_;
  ec::SliceNumbers chosen_;
  std::array<std::shared_ptr<SliceCall>, ec::kSlicesMax> calls_;  // of chosen ones, under way
  std::shared_ptr<asio::steady_timer> bell_;                      // rung by these
  std::vector<std::chrono::steady_clock::duration> took_;         // of those of `batch_`
  ec::SliceNumbers left_out_;
  ec::SliceNumbers late_;  // passed over, as long as there are further ones
  bool slow_too_ = false;  // there are no further ones
  ec::SliceNumbers bad_;
  ec::SliceNumbers gone_;     // not at their holders, as these report, or bad there
  ec::SliceNumbers fetched_;  // have the blocks of `batch_`
  ec::Stripes batch_;
};

}  // namespace tarn::target
