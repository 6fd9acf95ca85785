#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/error.h"
#include "common/base/mutex.h"
#include "ec/slice_numbers.h"

namespace tarn::ec {

/// Computation of some units of a stripe from k other units: coefficients, expanded for ISA-L.
/// Immutable.
class Recipe {
 public:
  /// `coefficients` has a row for each output, in it one number for each source; both in ascending
  /// order of units.
  Recipe(SliceNumbers sources, SliceNumbers outputs, std::span<const std::uint8_t> coefficients);

  [[nodiscard]] SliceNumbers sources() const { return sources_; }
  [[nodiscard]] SliceNumbers outputs() const { return outputs_; }
  /// Makes `bytes` bytes of every output. Both spans are in ascending order of units and as long as
  /// the sets. Any alignment; fastest from multiples of 64. Thread-safe.
  void run(std::span<const std::byte* const> from, std::span<std::byte* const> to,
           std::size_t bytes) const;

 private:
  SliceNumbers sources_;
  SliceNumbers outputs_;
  std::vector<std::uint8_t> tables_;  // 32 bytes for each coefficient, as ISA-L wants them
  bool sum_;                          // one output, all coefficients 1: XOR
};

/// The Reed-Solomon code of k data and m parity units over GF(2^8) (polynomial 0x11d): all units
/// can be made from any k of them. Coefficients: docs/slice-format.md. Thread-safe; one for each k
/// and m lives as long as the process, with the recipes that were asked for last.
class Code {
 public:
  /// invalid_argument unless k >= 1, m >= 1 and k + m <= 32.
  [[nodiscard]] static Result<std::shared_ptr<const Code>> of(std::size_t k, std::size_t m);

  [[nodiscard]] std::size_t k() const { return k_; }
  [[nodiscard]] std::size_t m() const { return m_; }
  [[nodiscard]] std::size_t units() const { return k_ + m_; }
  /// Factor of data unit `column` in the sum that is `unit`.
  [[nodiscard]] std::uint8_t coefficient(std::size_t unit, std::size_t column) const {
    return matrix_[unit * k_ + column];
  }

  /// Makes the m parity units of `bytes` bytes each from the k data units.
  void encode(std::span<const std::byte* const> data, std::span<std::byte* const> parity,
              std::size_t bytes) const {
    encoding_->run(data, parity, bytes);
  }

  /// Makes the units `wanted` from k of `present`, data before parity (so that one lost data unit
  /// is an XOR). `unavailable` when fewer than k are present, with the number. Costs some
  /// microseconds for a pair of sets that was not asked for lately, a look-up for a known pair.
  [[nodiscard]] Result<std::shared_ptr<const Recipe>> recipe(SliceNumbers present,
                                                             SliceNumbers wanted) const;

 private:
  Code(std::size_t k, std::size_t m);
  [[nodiscard]] std::shared_ptr<const Recipe> solve(SliceNumbers sources,
                                                    SliceNumbers wanted) const;

  std::size_t k_;
  std::size_t m_;
  std::vector<std::uint8_t> matrix_;  // k + m rows of k; the first k are the identity
  std::shared_ptr<const Recipe> encoding_;
  mutable Mutex mutex_;
  // The latest first.
  mutable std::vector<std::shared_ptr<const Recipe>> lately_ TARN_GUARDED_BY(mutex_);
};

/// The slices that a reader of `wanted` should read: these, when all of them are `alive`, else k of
/// those that are, data before parity. `unavailable` when there are fewer.
[[nodiscard]] Result<SliceNumbers> slices_to_read(SliceNumbers alive, SliceNumbers wanted,
                                                  std::size_t k);

}  // namespace tarn::ec
