#include "ec/code.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#include "common/base/check.h"
#include "common/base/wide_vectors.h"

namespace tarn::ec {
namespace {

constexpr std::size_t kTableBytes = 32;       // for each coefficient
constexpr std::size_t kRecipesMax = 64;       // in the memory of a code
constexpr std::uintptr_t kXorAlignment = 64;  // ISA-L asks for 32, and its AVX-512 takes 64 a time

// ISA-L forgot const, and counts in int.
unsigned char* isal(const std::byte* bytes) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  return reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes));
}

/// Cauchy's matrix 1/(i+j), rows i from k to k+m-1, columns j from 0 to k-1, each column multiplied
/// so that the first row is 1. Every square part of a Cauchy matrix can be inverted, with any
/// factors of its columns; so any k units are enough. (Vandermonde's, gf_gen_rs_matrix, is not so
/// for all k and m.)
std::uint8_t parity_coefficient(std::size_t row, std::size_t column, std::size_t k) {
  const auto numerator = static_cast<unsigned char>(k ^ column);
  const auto denominator = static_cast<unsigned char>(row ^ column);
  return gf_mul(numerator, gf_inv(denominator));
}

}  // namespace

Recipe::Recipe(SliceNumbers sources, SliceNumbers outputs,
               std::span<const std::uint8_t> coefficients)
    : sources_(sources),
      outputs_(outputs),
      tables_(kTableBytes * coefficients.size()),
      sum_(outputs.size() == 1 && std::all_of(coefficients.begin(), coefficients.end(),
                                              [](auto one) { return one == 1; })) {
  TARN_CHECK(coefficients.size() == sources.size() * outputs.size());
  std::vector<std::uint8_t> rows(coefficients.begin(), coefficients.end());
  ec_init_tables(static_cast<int>(sources.size()), static_cast<int>(outputs.size()), rows.data(),
                 tables_.data());
}

void Recipe::run(std::span<const std::byte* const> from, std::span<std::byte* const> to,
                 std::size_t bytes) const {
  TARN_CHECK(from.size() == sources_.size() && to.size() == outputs_.size());
  if (bytes == 0 || to.empty()) return;
  std::array<unsigned char*, kSlicesMax> in{};
  std::array<unsigned char*, kSlicesMax> out{};
  std::transform(from.begin(), from.end(), in.begin(), isal);
  std::transform(to.begin(), to.end(), out.begin(), isal);
  if (sum_ && from.size() == 1) {
    std::memcpy(to[0], from[0], bytes);
    return;
  }
  if (sum_) {
    std::uintptr_t ends = reinterpret_cast<std::uintptr_t>(to[0]);
    for (const std::byte* source : from) ends |= reinterpret_cast<std::uintptr_t>(source);
    if (ends % kXorAlignment == 0) {
      std::array<void*, kSlicesMax + 1> all{};
      std::copy_n(in.begin(), from.size(), all.begin());
      all[from.size()] = out[0];
      TARN_CHECK(xor_gen(static_cast<int>(from.size()) + 1, static_cast<int>(bytes), all.data()) ==
                 0);
      end_wide_vectors();
      return;
    }
  }
  // The tables are only read.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  ec_encode_data(static_cast<int>(bytes), static_cast<int>(from.size()),
                 static_cast<int>(to.size()), const_cast<std::uint8_t*>(tables_.data()), in.data(),
                 out.data());
  end_wide_vectors();
}

Code::Code(std::size_t k, std::size_t m) : k_(k), m_(m), matrix_((k + m) * k) {
  for (std::size_t i = 0; i < k; ++i) matrix_[i * k + i] = 1;
  for (std::size_t i = k; i < k + m; ++i)
    for (std::size_t j = 0; j < k; ++j) matrix_[i * k + j] = parity_coefficient(i, j, k);
  encoding_ = std::make_shared<const Recipe>(SliceNumbers::first(k),
                                             SliceNumbers::first(k + m) - SliceNumbers::first(k),
                                             std::span(matrix_).subspan(k * k));
}

Result<std::shared_ptr<const Code>> Code::of(std::size_t k, std::size_t m) {
  if (k < 1 || m < 1 || k > kSlicesMax || m > kSlicesMax || k + m > kSlicesMax)
    return fail(Errc::invalid_argument,
                "no code has {} data and {} parity slices: want at least one of each, and {} "
                "together at most",
                k, m, kSlicesMax);
  static Mutex mutex;
  static std::array<std::array<std::shared_ptr<const Code>, kSlicesMax>, kSlicesMax> codes
      TARN_GUARDED_BY(mutex);
  const MutexLock lock(mutex);
  auto& code = codes[k][m];
  if (!code) code.reset(new Code(k, m));
  return code;
}

std::shared_ptr<const Recipe> Code::solve(SliceNumbers sources, SliceNumbers wanted) const {
  std::array<std::uint8_t, kSlicesMax * kSlicesMax> square{};
  std::array<std::uint8_t, kSlicesMax * kSlicesMax> inverse{};
  std::size_t row = 0;
  for (const std::size_t source : sources)
    std::copy_n(&matrix_[source * k_], k_, &square[row++ * k_]);
  // The matrix is such that this cannot fail; the tests invert all of them up to k + m = 16.
  TARN_CHECK(gf_invert_matrix(square.data(), inverse.data(), static_cast<int>(k_)) == 0);
  std::vector<std::uint8_t> rows;
  rows.reserve(wanted.size() * k_);
  for (const std::size_t unit : wanted)
    for (std::size_t column = 0; column < k_; ++column) {
      std::uint8_t sum = 0;
      for (std::size_t i = 0; i < k_; ++i)
        sum =
            static_cast<std::uint8_t>(sum ^ gf_mul(coefficient(unit, i), inverse[i * k_ + column]));
      rows.push_back(sum);
    }
  return std::make_shared<const Recipe>(sources, wanted, rows);
}

Result<std::shared_ptr<const Recipe>> Code::recipe(SliceNumbers present,
                                                   SliceNumbers wanted) const {
  TARN_CHECK(SliceNumbers::first(units()).contains(present | wanted));
  const SliceNumbers sources = present.lowest(k_);
  if (sources.size() < k_)
    return fail(Errc::unavailable, "{} slices are there, {} are needed", sources.size(), k_);
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(lately_.begin(), lately_.end(), [&](const auto& recipe) {
      return recipe->sources() == sources && recipe->outputs() == wanted;
    });
    if (found != lately_.end()) {
      std::rotate(lately_.begin(), found, found + 1);
      return lately_.front();
    }
  }
  auto made = solve(sources, wanted);
  const MutexLock lock(mutex_);
  if (lately_.size() == kRecipesMax) lately_.pop_back();
  lately_.insert(lately_.begin(), made);
  return made;
}

Result<SliceNumbers> slices_to_read(SliceNumbers alive, SliceNumbers wanted, std::size_t k) {
  if (alive.contains(wanted)) return wanted;
  const SliceNumbers chosen = alive.lowest(k);
  if (chosen.size() < k)
    return fail(Errc::unavailable, "{} slices are there, {} are needed", chosen.size(), k);
  return chosen;
}

}  // namespace tarn::ec
