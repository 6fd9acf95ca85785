#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "common/base/error.h"
#include "common/base/hash.h"
#include "ec/code.h"
#include "ec/slice_format.h"
#include "ec/stripe.h"

namespace tarn::ec {

/// An object on its way in: bytes come in chunks of any size, stripes of k + m sealed blocks go
/// out. Its size need not be known before the end.
///
///   while (bytes come) {
///     n = receive into encoder.room();        // straight to where they are encoded: no copy
///     encoder.filled(n);
///     if (encoder.ready()) send(encoder.take());
///   }
///   if (auto last = encoder.finish()) send(*last);
///
/// Block i of a stripe goes to the end of slice i; the slice's label follows the last one.
/// Memory: one stripe, (k + m) x 64 KiB rounded up to 256 KiB, from the first byte of a stripe to
/// its take(); from there on it is the caller's. Hashes and checksums are computed over each unit
/// as it comes, parity when the stripe is complete: a call takes some 50 us then (8+2). Not
/// thread-safe.
class Encoder {
 public:
  /// invalid_argument for a geometry that there is none of. `with_checksum`: true if xxh64() is
  /// wanted; `with_parity`: true if blocks k and up are, which have no meaning otherwise.
  [[nodiscard]] static Result<Encoder> of(const Geometry& geometry, SetId set,
                                          bool with_checksum = true, bool with_parity = true);

  /// Room for the next bytes of the object: the rest of a unit, never empty. Not when ready().
  [[nodiscard]] std::span<std::byte> room();
  /// Takes note that the first `bytes` of room() are there.
  void filled(std::size_t bytes);
  /// Copies from the front of `bytes` until they are used up or a stripe is ready(); returns their
  /// number.
  std::size_t write(std::span<const std::byte> bytes);

  /// True if a stripe is complete: take() it before any other call.
  [[nodiscard]] bool ready() const { return unit_ == geometry_.k; }
  [[nodiscard]] Stripe take();
  /// The object ends here: its last, short stripe, unless it ended with a whole one. Not when
  /// ready().
  [[nodiscard]] std::optional<Stripe> finish();

  /// Bytes of the object so far.
  [[nodiscard]] std::uint64_t object_bytes() const { return object_bytes_; }
  /// XXH64 of them; 0 without `with_checksum`.
  [[nodiscard]] std::uint64_t xxh64() const { return xxh64_ ? xxh64_->digest() : 0; }

 private:
  Encoder(std::shared_ptr<const Code> code, const Geometry& geometry, SetId set, bool with_checksum,
          bool with_parity);
  void seal(std::size_t first, std::size_t end);
  void make_parity();
  void shorten(std::size_t unit_bytes, std::size_t rest);

  std::shared_ptr<const Code> code_;
  Geometry geometry_;
  SetId set_;
  bool with_parity_;
  std::optional<Xxh64Stream> xxh64_;
  Stripe stripe_;             // the one that is being filled; none between two
  std::uint64_t number_ = 0;  // its
  std::size_t unit_ = 0;      // the unit that is being filled, k when the stripe is complete
  std::size_t in_unit_ = 0;   // bytes that it has
  std::uint64_t object_bytes_ = 0;
};

}  // namespace tarn::ec
