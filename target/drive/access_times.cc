#include "target/drive/access_times.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "common/base/check.h"
#include "common/base/hash.h"

namespace tarn::target {
namespace {

constexpr std::string_view kAccessTimesMagic = "tarnacc1";
constexpr std::size_t kWord = 4;
constexpr std::size_t kHead = kAccessTimesMagic.size() + 2 * kWord;  // since, number of slots
constexpr std::size_t kTail = kWord;                                 // CRC32C of all before it

std::uint32_t seconds_of(WallTime time) {
  return static_cast<std::uint32_t>(
      std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::seconds>(time).count(), 0));
}

std::size_t access_slot_of(BucketId bucket, std::string_view name, std::size_t count) {
  return xxh64(name, raw(bucket)) & (count - 1);
}

void append_word(std::string& out, std::uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift);
}

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = kWord; i > 0; --i)
    value = value << 8U | static_cast<unsigned char>(bytes[at + i - 1]);
  return value;
}

}  // namespace

AccessTimes::AccessTimes(WallTime since) : since_(seconds_of(since)) {}

void AccessTimes::set_drive_bytes(std::uint64_t bytes) {
  const std::uint64_t wanted = std::bit_ceil(bytes / kBytesOfDrivePerSlot + 1);
  TARN_CHECK(slots() == nullptr);  // they have the former count
  count_ = std::clamp<std::uint64_t>(wanted, kSlotsMin, kSlotsMax);
  TARN_CHECK(std::has_single_bit(count_));
}

AccessTimes::Slot* AccessTimes::make_slots() {
  const MutexLock lock(making_);
  if (!own_slots_) {
    own_slots_ = std::make_unique<Slot[]>(count_);  // NOLINT(modernize-avoid-c-arrays)
    slots_.store(own_slots_.get(), std::memory_order_release);
  }
  return own_slots_.get();
}

void AccessTimes::note(BucketId bucket, std::string_view name, WallTime now) {
  Slot* all = slots();
  if (all == nullptr) all = make_slots();
  Slot& slot = all[access_slot_of(bucket, name, count_)];
  const std::uint32_t seconds = seconds_of(now);
  std::uint32_t before = slot.load(std::memory_order_relaxed);
  // Readers of one object write to its slot once a second, however many they are.
  while (before < seconds && !slot.compare_exchange_weak(before, seconds)) {
  }
  if (before < seconds) changed_.store(true, std::memory_order_relaxed);
}

std::uint32_t AccessTimes::last(BucketId bucket, std::string_view name) const {
  const Slot* all = slots();
  if (all == nullptr) return since_;
  const auto noted = all[access_slot_of(bucket, name, count_)].load(std::memory_order_relaxed);
  return noted == 0 ? since_ : noted;
}

std::string AccessTimes::encode() {
  changed_ = false;
  const Slot* all = slots();
  const std::size_t count = all == nullptr ? 0 : count_;
  std::string out(kAccessTimesMagic);
  out.reserve(kHead + count * kWord + kTail);
  append_word(out, since_);
  append_word(out, static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) append_word(out, all[i].load(std::memory_order_relaxed));
  append_word(out, crc32c(out));
  TARN_CHECK(out.size() == kHead + count * kWord + kTail);  // as load() wants it
  return out;
}

Status AccessTimes::load(std::string_view saved) {
  const auto is_whole = [&] {
    if (saved.size() < kHead + kTail || !saved.starts_with(kAccessTimesMagic)) return false;
    const std::size_t count = word_at(saved, kAccessTimesMagic.size() + kWord);
    if (count > kSlotsMax || (count != 0 && !std::has_single_bit(count))) return false;
    if (saved.size() != kHead + count * kWord + kTail) return false;
    const std::size_t end = saved.size() - kTail;
    return crc32c(saved.substr(0, end)) == word_at(saved, end);
  };
  if (!is_whole()) return fail(Errc::corrupt, "this is no table of access times, or a torn one");
  since_ = word_at(saved, kAccessTimesMagic.size());
  const std::size_t count = word_at(saved, kAccessTimesMagic.size() + kWord);
  if (count == 0) return {};
  Slot* all = make_slots();
  // The slot is the low bits of a hash, so a smaller table repeats in a larger one.
  for (std::size_t i = 0; i < std::max(count, count_); ++i) {
    Slot& slot = all[i & (count_ - 1)];
    const std::uint32_t before = word_at(saved, kHead + (i & (count - 1)) * kWord);
    slot = std::max(slot.load(std::memory_order_relaxed), before);
  }
  return {};
}

}  // namespace tarn::target
