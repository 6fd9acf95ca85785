#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>

namespace tarn::ec {

/// No code has more data and parity slices together.
inline constexpr std::size_t kSlicesMax = 32;

/// Some slices of an object, or their units in a stripe: 0 to k-1 are data, k to k+m-1 parity.
class SliceNumbers {
 public:
  class iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = std::size_t;
    constexpr iterator() = default;
    constexpr explicit iterator(std::uint32_t rest) : rest_(rest) {}
    constexpr std::size_t operator*() const {
      return static_cast<std::size_t>(std::countr_zero(rest_));
    }
    constexpr iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    constexpr iterator operator++(int) {
      const iterator before = *this;
      ++*this;
      return before;
    }
    constexpr bool operator==(const iterator&) const = default;

   private:
    std::uint32_t rest_ = 0;
  };

  constexpr SliceNumbers() = default;
  /// Bit i stands for slice i.
  constexpr explicit SliceNumbers(std::uint32_t bits) : bits_(bits) {}
  constexpr SliceNumbers(std::initializer_list<std::size_t> slices) {
    for (const std::size_t slice : slices) insert(slice);
  }
  /// The slices 0 to `count` - 1.
  [[nodiscard]] static constexpr SliceNumbers first(std::size_t count) {
    return SliceNumbers(static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1));
  }

  constexpr void insert(std::size_t slice) { bits_ |= std::uint32_t{1} << slice; }
  constexpr void erase(std::size_t slice) { bits_ &= ~(std::uint32_t{1} << slice); }
  [[nodiscard]] constexpr bool contains(std::size_t slice) const {
    return (bits_ >> slice & 1U) != 0;
  }
  [[nodiscard]] constexpr bool contains(SliceNumbers others) const {
    return (others.bits_ & ~bits_) == 0;
  }
  [[nodiscard]] constexpr std::size_t size() const {
    return static_cast<std::size_t>(std::popcount(bits_));
  }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr std::uint32_t bits() const { return bits_; }
  /// The `count` lowest of these, or all when there are fewer: data before parity.
  [[nodiscard]] constexpr SliceNumbers lowest(std::size_t count) const {
    SliceNumbers chosen;
    for (auto at = begin(); at != end() && chosen.size() < count; ++at) chosen.insert(*at);
    return chosen;
  }

  /// In ascending order.
  [[nodiscard]] constexpr iterator begin() const { return iterator(bits_); }
  [[nodiscard]] constexpr iterator end() const { return iterator(); }

  constexpr bool operator==(const SliceNumbers&) const = default;
  friend constexpr SliceNumbers operator|(SliceNumbers a, SliceNumbers b) {
    return SliceNumbers(a.bits_ | b.bits_);
  }
  friend constexpr SliceNumbers operator&(SliceNumbers a, SliceNumbers b) {
    return SliceNumbers(a.bits_ & b.bits_);
  }
  /// The slices of `a` that are not in `b`.
  friend constexpr SliceNumbers operator-(SliceNumbers a, SliceNumbers b) {
    return SliceNumbers(a.bits_ & ~b.bits_);
  }

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace tarn::ec
