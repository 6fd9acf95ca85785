#include "ec/encoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace tarn::ec {

Result<Encoder> Encoder::of(const Geometry& geometry, SetId set, bool with_checksum,
                            bool with_parity) {
  TRY_OK(check(geometry));
  TRY(auto code, Code::of(geometry.k, geometry.m));
  return Encoder(std::move(code), geometry, set, with_checksum, with_parity);
}

Encoder::Encoder(std::shared_ptr<const Code> code, const Geometry& geometry, SetId set,
                 bool with_checksum, bool with_parity)
    : code_(std::move(code)), geometry_(geometry), set_(set), with_parity_(with_parity) {
  if (with_checksum) xxh64_.emplace();
}

std::span<std::byte> Encoder::room() {
  TARN_CHECK(!ready());
  if (!stripe_.valid()) {
    stripe_ = Stripe(geometry_.block_bytes, geometry_.slices());
    stripe_.describe(number_, geometry_.block_bytes);
  }
  return stripe_.room(unit_).first(geometry_.unit_bytes()).subspan(in_unit_);
}

void Encoder::filled(std::size_t bytes) {
  const auto came = room().first(bytes);
  if (xxh64_) xxh64_->update(came);
  object_bytes_ += bytes;
  in_unit_ += bytes;
  if (in_unit_ < geometry_.unit_bytes()) return;
  seal(unit_, unit_ + 1);
  in_unit_ = 0;
  ++unit_;
  if (ready()) make_parity();
}

std::size_t Encoder::write(std::span<const std::byte> bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && !ready()) {
    const auto into = room();
    const std::size_t count = std::min(into.size(), bytes.size() - taken);
    std::memcpy(into.data(), &bytes[taken], count);
    filled(count);
    taken += count;
  }
  return taken;
}

Stripe Encoder::take() {
  TARN_CHECK(ready());
  unit_ = 0;
  ++number_;
  return std::exchange(stripe_, {});
}

std::optional<Stripe> Encoder::finish() {
  TARN_CHECK(!ready());
  const std::size_t rest = unit_ * geometry_.unit_bytes() + in_unit_;
  if (rest == 0) return std::nullopt;
  const std::size_t unit = geometry_.short_unit_bytes(rest);
  shorten(unit, rest);
  stripe_.describe(number_, unit + kFooterBytes);
  seal(0, geometry_.k);
  make_parity();
  unit_ = geometry_.k;
  in_unit_ = 0;
  return take();
}

void Encoder::seal(std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < end; ++i)
    seal_block(stripe_.room(i).first(stripe_.used_bytes()), {set_, geometry_, i}, number_);
}

void Encoder::make_parity() {
  if (!with_parity_) return;
  std::array<const std::byte*, kSlicesMax> data{};
  std::array<std::byte*, kSlicesMax> parity{};
  for (std::size_t i = 0; i < geometry_.k; ++i) data[i] = stripe_.room(i).data();
  for (std::size_t i = 0; i < geometry_.m; ++i) parity[i] = stripe_.room(geometry_.k + i).data();
  code_->encode(std::span(data).first(geometry_.k), std::span(parity).first(geometry_.m),
                stripe_.used_bytes() - kFooterBytes);
  seal(geometry_.k, geometry_.slices());
}

/// Puts the `rest` bytes of the last stripe, which came as units of the full length, into units of
/// `unit_bytes`, and zeros after them. From the last to the first: bytes only move up.
void Encoder::shorten(std::size_t unit_bytes, std::size_t rest) {
  const std::size_t full = geometry_.unit_bytes();
  for (std::size_t unit = geometry_.k; unit-- > 0;) {
    const std::size_t begin = std::min(unit * unit_bytes, rest);
    std::size_t end = std::min(begin + unit_bytes, rest);
    std::byte* to = stripe_.room(unit).data();
    std::memset(to + (end - begin), 0, unit_bytes - (end - begin));
    while (end > begin) {
      // The part of it that came within one unit of the full length.
      const std::size_t came = (end - 1) / full;
      const std::size_t from = std::max(begin, came * full);
      std::memmove(to + (from - begin), stripe_.room(came).data() + (from - came * full),
                   end - from);
      end = from;
    }
  }
}

}  // namespace tarn::ec
