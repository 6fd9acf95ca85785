#include "common/base/hash.h"

#include <isa-l/crc.h>
#include <xxhash.h>

#include "common/base/wide_vectors.h"

namespace tarn {

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}
std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  // ISA-L inverts neither its argument nor its result.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the C interface forgot const
  auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
  while (bytes.size() > 0x40000000) {  // its length is an int
    crc = ~crc32_iscsi(data, 0x40000000, ~crc);
    data += 0x40000000;
    bytes = bytes.subspan(0x40000000);
  }
  crc = ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~crc);
  end_wide_vectors();
  return crc;
}
std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc) {
  return crc32c(std::as_bytes(std::span(bytes)), crc);
}

struct Xxh64Stream::State {
  State() : xxh(XXH64_createState(), &XXH64_freeState) {}
  std::unique_ptr<XXH64_state_t, decltype(&XXH64_freeState)> xxh;
};

Xxh64Stream::Xxh64Stream() : state_(std::make_unique<State>()) {
  XXH64_reset(state_->xxh.get(), 0);
}
Xxh64Stream::~Xxh64Stream() = default;
Xxh64Stream::Xxh64Stream(const Xxh64Stream& other) : state_(std::make_unique<State>()) {
  XXH64_copyState(state_->xxh.get(), other.state_->xxh.get());
}
Xxh64Stream& Xxh64Stream::operator=(const Xxh64Stream& other) {
  if (this != &other) *this = Xxh64Stream(other);
  return *this;
}
Xxh64Stream::Xxh64Stream(Xxh64Stream&&) noexcept = default;
Xxh64Stream& Xxh64Stream::operator=(Xxh64Stream&&) noexcept = default;

void Xxh64Stream::update(std::span<const std::byte> bytes) {
  XXH64_update(state_->xxh.get(), bytes.data(), bytes.size());
}
std::uint64_t Xxh64Stream::digest() const { return XXH64_digest(state_->xxh.get()); }

}  // namespace tarn
