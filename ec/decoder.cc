#include "ec/decoder.h"

#include <utility>

#include "common/base/check.h"

namespace tarn::ec {
namespace {

/// A layout has a geometry that there is a code of.
std::shared_ptr<const Code> code_of(const Layout& layout) {
  auto code = Code::of(layout.geometry().k, layout.geometry().m);
  TARN_CHECK(code.has_value());
  return *std::move(code);
}

}  // namespace

StripeReader::StripeReader(std::shared_ptr<const Code> code, const Layout& layout, SetId set,
                           Stripes stripes)
    : code_(std::move(code)),
      layout_(layout),
      set_(set),
      stripe_(stripes.first),
      end_(stripes.first + stripes.count) {}

Status StripeReader::add(std::size_t slice, std::span<const std::byte> block) {
  TARN_CHECK(!done() && slice < layout_.geometry().slices());
  if (block.size() != layout_.block_bytes(stripe_))
    return fail(Errc::corrupt, "block {} of slice {} ends after {} bytes instead of {}", stripe_,
                slice, block.size(), layout_.block_bytes(stripe_));
  TRY_OK(check_block(block, slice_id(slice), stripe_));
  units_[slice] = block.data();
  have_.insert(slice);
  return {};
}

void StripeReader::next() {
  TARN_CHECK(!done());
  ++stripe_;
  have_ = {};
}

Status StripeReader::solve(SliceNumbers from, SliceNumbers wanted, Stripe& made) {
  // A stream decodes with one choice of slices for long.
  const SliceNumbers sources = from.lowest(code_->k());
  if (!recipe_ || recipe_->sources() != sources || recipe_->outputs() != wanted) {
    TRY(recipe_, code_->recipe(sources, wanted));
  }
  // As many as can ever be missing, since more may fail later.
  if (!made.valid()) made = Stripe(layout_.geometry().block_bytes, code_->m());
  std::array<const std::byte*, kSlicesMax> in{};
  std::array<std::byte*, kSlicesMax> out{};
  std::size_t count = 0;
  for (const std::size_t slice : sources) in[count++] = units_[slice];
  for (std::size_t i = 0; i < wanted.size(); ++i) out[i] = made.room(i).data();
  recipe_->run(std::span(in).first(count), std::span(out).first(wanted.size()),
               layout_.unit_bytes(stripe_));
  return {};
}

Decoder::Decoder(const Layout& layout, SetId set, std::uint64_t begin, std::uint64_t end)
    : StripeReader(code_of(layout), layout, set, layout.stripes_of(begin, end)),
      begin_(begin),
      range_end_(end) {}

SliceNumbers Decoder::wanted() const { return layout().slices_of(stripe(), begin_, range_end_); }

bool Decoder::ready() const {
  return !done() && (have().contains(wanted()) || have().size() >= code().k());
}

Result<std::span<const std::span<const std::byte>>> Decoder::bytes() {
  const SliceNumbers slices = wanted();
  const SliceNumbers missing = slices - have();
  if (!missing.empty()) TRY_OK(solve(have(), missing, made_));
  std::size_t count = 0;
  std::size_t next_made = 0;
  for (const std::size_t slice : slices) {
    const std::byte* data = missing.contains(slice) ? made_.room(next_made++).data() : unit(slice);
    const Part part = layout().part_of(stripe(), slice, begin_, range_end_);
    parts_[count++] = {data + part.offset, part.bytes};
  }
  return std::span<const std::span<const std::byte>>(parts_.data(), count);
}

Rebuilder::Rebuilder(const Layout& layout, SetId set, SliceNumbers lost, std::uint64_t first)
    : StripeReader(code_of(layout), layout, set, {first, layout.stripes() - first}), lost_(lost) {
  TARN_CHECK(first <= layout.stripes() && lost.size() <= layout.geometry().m &&
             SliceNumbers::first(layout.geometry().slices()).contains(lost));
}

bool Rebuilder::ready() const { return !done() && (have() - lost_).size() >= code().k(); }

Result<std::span<const std::span<const std::byte>>> Rebuilder::blocks() {
  TRY_OK(solve(have() - lost_, lost_, made_));
  std::size_t count = 0;
  for (const std::size_t slice : lost_) {
    const auto block = made_.room(count).first(layout().block_bytes(stripe()));
    seal_block(block, slice_id(slice), stripe());
    blocks_[count++] = block;
  }
  return std::span<const std::span<const std::byte>>(blocks_.data(), count);
}

}  // namespace tarn::ec
