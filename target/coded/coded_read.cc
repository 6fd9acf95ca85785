#include "target/coded/coded_read.h"

#include "common/base/check.h"
#include "common/obs/log.h"
#include "target/drive/slice_ids.h"
#include "target/replica/newest.h"

namespace tarn::target {
namespace {

/// Newer records that one reader follows. A repair makes one for each slice that it moves.
constexpr int kLooksMax = 4;

/// The layout of a record whose coding was checked when it was read.
ec::Layout layout_of(const io::ObjectRecord& record) {
  TARN_CHECK(record.coding.has_value());
  const auto layout = ec::Layout::of(geometry_of(*record.coding), record.size);
  TARN_CHECK(layout.has_value());
  return *layout;
}

/// The data slices that hold bytes of the range.
ec::SliceNumbers slices_of(const ec::Layout& layout, ec::Stripes stripes, std::uint64_t begin,
                           std::uint64_t end) {
  if (stripes.count > 2) return ec::SliceNumbers::first(layout.geometry().k);
  ec::SliceNumbers out;
  for (std::uint64_t i = 0; i < stripes.count; ++i)
    out = out | layout.slices_of(stripes.first + i, begin, end);
  return out;
}

}  // namespace

CodedReader::CodedReader(TargetNode& node, const ObjectName& name, const io::ObjectRecord& record,
                         std::uint64_t begin, std::uint64_t end, TurnFor purpose)
    : node_(node),
      name_(name),
      set_(record.coding->set),
      layout_(layout_of(record)),
      stripes_(layout_.stripes_of(begin, end)),
      decoder_(layout_, ec::SetId(record.coding->set), begin, end),
      slices_(node, name, *record.coding, layout_, stripes_,
              slices_of(layout_, stripes_, begin, end), purpose),
      xxh64_(record.xxh64) {
  if (begin == 0 && end == record.size) seen_.emplace();
}

Task<Result<std::span<const std::span<const std::byte>>>> CodedReader::next() {
  if (given_) decoder_.next();
  given_ = false;
  if (decoder_.done()) co_return std::span<const std::span<const std::byte>>();
  CO_TRY_OK(co_await fill());
  CO_TRY(const auto bytes, decoder_.bytes());
  CO_TRY_OK(check_whole(bytes));
  given_ = true;
  co_return bytes;
}

Task<Status> CodedReader::fill() {
  while (true) {
    const Status filled = co_await slices_.fill(decoder_);
    if (filled) co_return Status();
    CO_TRY_OK(co_await look_again(filled.error()));
  }
}

/// Too few slices can be had where the record that we have names them. Ok: a newer one names other
/// holders for them.
Task<Status> CodedReader::look_again(Error why) {
  if (looks_++ == kLooksMax) co_return fail(std::move(why));
  CO_TRY(const ObjectRequest wanted, request_of(node_, name_));
  const auto newest = co_await find_complete(node_, wanted);
  if (!newest)
    co_return fail(Errc::unavailable, "{}; and whether they have moved is not known: {}",
                   why.message, newest.error().message);
  if (!newest->exists() || !newest->record->coding || newest->record->coding->set != set_ ||
      geometry_of(*newest->record->coding) != layout_.geometry()) {
    overtaken_ = true;
    co_return fail(Errc::unavailable, "{} was replaced while it was read; try again",
                   wanted.display());
  }
  if (slices_.move_to(*newest->record->coding)) co_return Status();
  if (!slices_.lost()) co_return fail(std::move(why));
  obs::log("target").error("object lost object={} err={}", wanted.display(), why.message);
  co_return fail(Errc::corrupt, "fewer than {} of its {} slices are left", layout_.geometry().k,
                 layout_.geometry().slices());
}

Status CodedReader::check_whole(std::span<const std::span<const std::byte>> bytes) {
  if (!seen_) return {};
  for (const auto& part : bytes) seen_->update(part);
  TARN_CHECK(decoder_.stripe() < stripes_.first + stripes_.count);
  const bool last = decoder_.stripe() + 1 == stripes_.first + stripes_.count;
  if (!last || seen_->digest() == xxh64_) return {};
  return fail(Errc::corrupt, "the bytes of {} slices together are not what was stored",
              layout_.geometry().k);
}

}  // namespace tarn::target
