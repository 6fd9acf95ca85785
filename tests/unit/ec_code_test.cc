// The code itself: its matrix, and that any k units give all others.

#include <algorithm>
#include <numeric>

#include "ec/code.h"
#include "tests/unit/ec_fixture.h"

namespace ec_code_test {

using namespace tarn;
using namespace tarn::ec;
using namespace tarn::ec::testing;

/// Multiplication in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1, as a book has it.
std::uint8_t multiply(std::uint8_t a, std::uint8_t b) {
  std::uint8_t product = 0;
  for (unsigned x = a; b != 0; b >>= 1) {
    if ((b & 1) != 0) product = static_cast<std::uint8_t>(product ^ x);
    x <<= 1;
    if ((x & 0x100) != 0) x ^= 0x11d;
  }
  return product;
}

std::uint8_t inverse(std::uint8_t value) {
  for (unsigned other = 1; other < 256; ++other)
    if (multiply(value, static_cast<std::uint8_t>(other)) == 1)
      return static_cast<std::uint8_t>(other);
  return 0;
}

std::shared_ptr<const Code> code_of(std::size_t k, std::size_t m) {
  const auto code = Code::of(k, m);
  REQUIRE(code.has_value());
  return *code;
}

/// All units of a stripe of random units, `shift` bytes after an alignment of 64.
class Units {
 public:
  Units(const Code& code, std::size_t bytes, std::size_t shift, std::uint32_t seed)
      : code_(code), bytes_(bytes), shift_(shift), step_((bytes + shift + 127) / 64 * 64) {
    room_.resize(step_ * code.units() + 64);
    const auto start = reinterpret_cast<std::uintptr_t>(room_.data());
    base_ = room_.data() + (64 - start % 64) % 64;
    const std::string random = random_text(bytes * code.k(), seed);
    std::vector<const std::byte*> data;
    std::vector<std::byte*> parity;
    for (std::size_t i = 0; i < code.k(); ++i) {
      std::copy_n(bytes_of(random).data() + i * bytes, bytes, at(i));
      data.push_back(at(i));
    }
    for (std::size_t i = code.k(); i < code.units(); ++i) parity.push_back(at(i));
    code.encode(data, parity, bytes);
  }
  std::byte* at(std::size_t unit) { return base_ + unit * step_ + shift_; }
  /// True if these units come out of `present`.
  bool come_back(SliceNumbers present, SliceNumbers lost) {
    const auto recipe = code_.recipe(present, lost);
    if (!recipe) return false;
    std::vector<const std::byte*> from;
    for (const std::size_t unit : (*recipe)->sources()) from.push_back(at(unit));
    std::vector<std::byte> made(step_ * lost.size());
    std::vector<std::byte*> to;
    to.reserve(lost.size());
    for (std::size_t i = 0; i < lost.size(); ++i) to.push_back(&made[i * step_]);
    (*recipe)->run(from, to, bytes_);
    std::size_t i = 0;
    return std::all_of(lost.begin(), lost.end(), [&](std::size_t unit) {
      const std::byte* its = to[i++];
      return std::equal(its, its + bytes_, at(unit));
    });
  }

 private:
  const Code& code_;
  std::size_t bytes_;
  std::size_t shift_;
  std::size_t step_;
  std::vector<std::byte> room_;
  std::byte* base_ = nullptr;
};

TEST_CASE("ec: a code without parity, or of too many units, is refused in words", "[ec]") {
  for (const auto& [k, m] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 0}, {0, 2}, {4, 0}, {31, 2}, {32, 1}, {1, 32}, {SIZE_MAX, 2}, {2, SIZE_MAX}}) {
    INFO(k << "+" << m);
    const auto code = Code::of(k, m);
    REQUIRE_FALSE(code.has_value());
    CHECK(code.error().code == Errc::invalid_argument);
    CHECK(code.error().message.find("at least one of each") != std::string::npos);
    CHECK_FALSE(check({k, m}).has_value());
  }
  CHECK(Code::of(1, 31).has_value());
  CHECK(Code::of(31, 1).has_value());
}

TEST_CASE("ec: coefficients are those of docs/slice-format.md", "[ec]") {
  for (std::size_t k = 1; k < kSlicesMax; ++k)
    for (std::size_t m = 1; k + m <= kSlicesMax; ++m) {
      const auto code = code_of(k, m);
      for (std::size_t row = 0; row < k + m; ++row)
        for (std::size_t column = 0; column < k; ++column) {
          const auto above = static_cast<std::uint8_t>(k ^ column);
          const auto below = static_cast<std::uint8_t>(row ^ column);
          const std::uint8_t wanted =
              row < k ? static_cast<std::uint8_t>(row == column) : multiply(above, inverse(below));
          if (code->coefficient(row, column) != wanted) {
            INFO(k << "+" << m << ", unit " << row << ", column " << column);
            REQUIRE(code->coefficient(row, column) == wanted);
          }
        }
    }
}

TEST_CASE("ec: parity is the sum that the coefficients say, whatever lengths and addresses",
          "[ec]") {
  const std::uint32_t seed = test_seed();
  INFO("TARN_TEST_SEED=" << seed);
  for (const auto& [k, m] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 1}, {2, 1}, {9, 1}, {1, 3}, {5, 4}, {10, 7}}) {
    const auto code = code_of(k, m);
    for (std::size_t bytes = 1; bytes < 300; bytes += bytes < 70 ? 1 : 13)
      for (const std::size_t shift : {0U, 1U, 32U}) {
        Units units(*code, bytes, shift, seed);
        for (std::size_t row = k; row < k + m; ++row) {
          std::vector<std::byte> sum(bytes);
          for (std::size_t i = 0; i < k; ++i)
            for (std::size_t at = 0; at < bytes; ++at)
              sum[at] ^= static_cast<std::byte>(
                  multiply(code->coefficient(row, i), static_cast<std::uint8_t>(units.at(i)[at])));
          INFO(k << "+" << m << ", " << bytes << " bytes, shift " << shift << ", unit " << row);
          REQUIRE(std::equal(sum.begin(), sum.end(), units.at(row)));
        }
      }
  }
}

TEST_CASE("ec: one lost data unit is an XOR", "[ec]") {
  const auto code = code_of(6, 3);
  const auto recipe = code->recipe(SliceNumbers::first(9) - SliceNumbers{2}, SliceNumbers{2});
  REQUIRE(recipe.has_value());
  CHECK((*recipe)->sources() == SliceNumbers{0, 1, 3, 4, 5, 6});
  Units units(*code, 640, 0, 1);
  std::vector<std::byte> sum(640);
  for (const std::size_t unit : (*recipe)->sources())
    for (std::size_t at = 0; at < sum.size(); ++at) sum[at] ^= units.at(unit)[at];
  CHECK(std::equal(sum.begin(), sum.end(), units.at(2)));
}

TEST_CASE("ec: any k of k + m up to 32 units give all others", "[ec]") {
  const std::uint32_t seed = test_seed();
  INFO("TARN_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    const std::size_t n = 2 + below(31);
    const std::size_t k = 1 + below(n - 1);
    const auto code = code_of(k, n - k);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    SliceNumbers present;
    for (std::size_t i = 0; i < k; ++i) present.insert(order[i]);
    Units units(*code, 1 + below(200), below(3), static_cast<std::uint32_t>(round));
    INFO(k << "+" << n - k << ", present " << std::hex << present.bits());
    REQUIRE(units.come_back(present, SliceNumbers::first(n) - present));
    // One that is no longer wanted, or that is there already, changes nothing.
    REQUIRE(units.come_back(SliceNumbers::first(n), SliceNumbers{order[0]}));
  }
}

TEST_CASE("ec: fewer than k units are not enough, and the error says how many are", "[ec]") {
  const auto code = code_of(4, 2);
  const auto recipe = code->recipe(SliceNumbers{0, 3, 5}, SliceNumbers{1});
  REQUIRE_FALSE(recipe.has_value());
  CHECK(recipe.error().code == Errc::unavailable);
  CHECK(recipe.error().message == "3 slices are there, 4 are needed");
  const auto chosen = slices_to_read(SliceNumbers{0, 3, 5}, SliceNumbers{1}, 4);
  REQUIRE_FALSE(chosen.has_value());
  CHECK(chosen.error().message == recipe.error().message);
}

TEST_CASE("ec: readers take the data slices that they want, or k with data first", "[ec]") {
  CHECK(slices_to_read(SliceNumbers::first(6), SliceNumbers{1, 2}, 4).value() ==
        SliceNumbers{1, 2});
  CHECK(slices_to_read(SliceNumbers{1, 2}, SliceNumbers{1, 2}, 4).value() == SliceNumbers{1, 2});
  CHECK(slices_to_read(SliceNumbers{0, 2, 3, 4, 5}, SliceNumbers{1, 2}, 4).value() ==
        SliceNumbers{0, 2, 3, 4});
}

}  // namespace ec_code_test
