#include "common/cluster/store/acknowledged_mark.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/base/hash.h"

namespace tarn::cluster {
namespace {

static_assert(std::endian::native == std::endian::little, "the slots are written as they lie");

constexpr std::string_view kMagic = "TARNMARK";
constexpr off_t kSlotStride = 4096;
constexpr std::size_t kCrcAt = 16;
constexpr std::size_t kSlotBytes = 20;
using Slot = std::array<char, kSlotBytes>;

Slot acknowledged_mark_encode(std::uint64_t number) {
  Slot slot{};
  std::memcpy(slot.data(), kMagic.data(), kMagic.size());
  std::memcpy(slot.data() + kMagic.size(), &number, sizeof number);
  const std::uint32_t crc = crc32c(std::string_view(slot.data(), kCrcAt));
  std::memcpy(slot.data() + kCrcAt, &crc, sizeof crc);
  return slot;
}

std::optional<std::uint64_t> acknowledged_mark_decode(const Slot& slot) {
  std::uint64_t number = 0;
  std::memcpy(&number, slot.data() + kMagic.size(), sizeof number);
  if (acknowledged_mark_encode(number) != slot) return std::nullopt;
  return number;
}

off_t slot_offset(std::uint64_t number) { return number % 2 == 0 ? 0 : kSlotStride; }

}  // namespace

Result<std::optional<std::uint64_t>> AcknowledgedMark::open() {
  fd_ = UniqueFd(::open(file_.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd_.valid()) {
    if (errno == ENOENT) return std::optional<std::uint64_t>();
    return fail_errno(errno, "open " + file_.string());
  }
  std::optional<std::uint64_t> number;
  for (const off_t offset : {off_t{0}, kSlotStride}) {
    Slot slot{};
    const ssize_t got = ::pread(fd_.get(), slot.data(), slot.size(), offset);
    if (got < 0) return fail_errno(errno, "read " + file_.string());
    const auto value = static_cast<std::size_t>(got) == slot.size() ? acknowledged_mark_decode(slot)
                                                                    : std::nullopt;
    if (value) number = std::max(number.value_or(0), *value);
  }
  if (!number) return fail(Errc::corrupt, "{} has no readable slot", file_.string());
  return number;
}

Status AcknowledgedMark::create() {
  const std::string temporary = file_.string() + ".new";
  fd_ = UniqueFd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd_.valid()) return fail_errno(errno, "create " + temporary);
  TRY_OK(write(0));
  if (::rename(temporary.c_str(), file_.c_str()) != 0)
    return fail_errno(errno, "rename " + temporary);
  const UniqueFd directory(::open(file_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || ::fsync(directory.get()) != 0)
    return fail_errno(errno, "fsync " + file_.parent_path().string());
  return {};
}

Status AcknowledgedMark::write(std::uint64_t number) {
  const Slot slot = acknowledged_mark_encode(number);
  const ssize_t put = ::pwrite(fd_.get(), slot.data(), slot.size(), slot_offset(number));
  if (put != static_cast<ssize_t>(slot.size()))
    return fail_errno(put < 0 ? errno : ENOSPC, "write " + file_.string());
  if (::fdatasync(fd_.get()) != 0) return fail_errno(errno, "fdatasync " + file_.string());
  return {};
}

}  // namespace tarn::cluster
