#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/error.h"
#include "ec/code.h"
#include "ec/layout.h"
#include "ec/slice_format.h"
#include "ec/stripe.h"

namespace tarn::ec {

/// One stripe after the other of some slices of an object: the common part of Decoder and
/// Rebuilder. Blocks are the caller's memory and are neither copied nor changed; they must stay
/// until next(). They may come from other slices in each stripe: a slice that fails is left out, or
/// replaced by another one from this stripe on. Not thread-safe.
class StripeReader {
 public:
  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// True if all stripes have been passed: from then on only done() may be called.
  [[nodiscard]] bool done() const { return stripe_ == end_; }
  /// The stripe that wants blocks now, and where they lie in each slice's file.
  [[nodiscard]] std::uint64_t stripe() const { return stripe_; }
  [[nodiscard]] FileRange block_range() const { return layout_.file_range({stripe_, 1}); }
  /// The slices whose block of this stripe was added.
  [[nodiscard]] SliceNumbers have() const { return have_; }

  /// Block stripe() of a slice, checked here. `corrupt` when it is not that: it is left out then,
  /// and the caller should count it against the slice's drive and go on with another slice.
  Status add(std::size_t slice, std::span<const std::byte> block);
  /// On to the next stripe; blocks and results of this one are forgotten.
  void next();

 protected:
  StripeReader(std::shared_ptr<const Code> code, const Layout& layout, SetId set, Stripes stripes);
  /// Makes the units of `wanted` out of k of the blocks in `from`, into the blocks of `made`. Takes
  /// `made` from the pool when there is none.
  Status solve(SliceNumbers from, SliceNumbers wanted, Stripe& made);
  [[nodiscard]] const std::byte* unit(std::size_t slice) const { return units_[slice]; }
  [[nodiscard]] SliceId slice_id(std::size_t slice) const {
    return {set_, layout_.geometry(), slice};
  }
  [[nodiscard]] const Code& code() const { return *code_; }

 private:
  std::shared_ptr<const Code> code_;
  std::shared_ptr<const Recipe> recipe_;  // of the last stripe that needed one
  Layout layout_;
  SetId set_;
  std::uint64_t stripe_;
  std::uint64_t end_;
  SliceNumbers have_;
  std::array<const std::byte*, kSlicesMax> units_{};
};

/// Bytes of an object, in order, from any k of its slices:
///
///   while (!decoder.done()) {
///     // blocks of decoder.wanted(), or of any k slices: slices_to_read() chooses
///     decoder.add(slice, block)...
///     if (decoder.ready()) { send(decoder.bytes()); decoder.next(); }
///   }
///
/// Memory: none of its own while the slices that hold the range are there; then one unit for each
/// that is missing, rounded up to 256 KiB, until it dies.
class Decoder : public StripeReader {
 public:
  /// Bytes [begin, end) of the object, end <= layout.object_bytes().
  Decoder(const Layout& layout, SetId set, std::uint64_t begin, std::uint64_t end);

  /// The data slices that hold bytes of the range in this stripe. With their blocks no unit need be
  /// computed.
  [[nodiscard]] SliceNumbers wanted() const;
  /// True if the blocks that were added are enough for bytes().
  [[nodiscard]] bool ready() const;
  /// The range's bytes in this stripe, in order: views of blocks and of the decoder's own memory,
  /// until next(). `unavailable` when it is not ready().
  [[nodiscard]] Result<std::span<const std::span<const std::byte>>> bytes();

 private:
  std::uint64_t begin_;
  std::uint64_t range_end_;
  Stripe made_;
  std::array<std::span<const std::byte>, kSlicesMax> parts_;
};

/// Lost slices, made from any k good ones: the same files again, bit for bit, so slices that were
/// rebuilt go together with those that were not. The label follows the last block, with the slice's
/// own index. Memory: one block for each slice that is made, rounded up to 256 KiB.
class Rebuilder : public StripeReader {
 public:
  /// From the blocks of stripe `first` on, as far as a rebuild had come before.
  Rebuilder(const Layout& layout, SetId set, SliceNumbers lost, std::uint64_t first = 0);

  [[nodiscard]] SliceNumbers lost() const { return lost_; }
  /// True if blocks of k slices were added, none of which is lost.
  [[nodiscard]] bool ready() const;
  /// The block of this stripe for each lost slice, in ascending order; until next(). `unavailable`
  /// when it is not ready().
  [[nodiscard]] Result<std::span<const std::span<const std::byte>>> blocks();

 private:
  SliceNumbers lost_;
  Stripe made_;
  std::array<std::span<const std::byte>, kSlicesMax> blocks_;
};

}  // namespace tarn::ec
