#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/http/message.h"

namespace tarn::target {

/// The checksums that a client sent along with a body, computed over what arrived. Content-MD5 (RFC
/// 1864, base64), Ais-Checksum-Type/-Value (aistore-api.md 1.12, hex), x-amz-checksum-* (base64).
class BodyChecksums {
 public:
  /// invalid_argument for a type that nobody knows or a value of the wrong form.
  [[nodiscard]] static Result<BodyChecksums> from(const http::RequestHead& head);
  ~BodyChecksums();
  BodyChecksums(BodyChecksums&&) noexcept;
  BodyChecksums& operator=(BodyChecksums&&) noexcept;

  /// Whether update() must see the bytes: not for nothing, and not for an xxhash alone.
  [[nodiscard]] bool needs_bytes() const;
  void update(std::span<const std::byte> bytes);
  /// checksum_mismatch when one of them differs. `xxh64` has been computed anyway.
  Status check(std::uint64_t xxh64);

 private:
  struct Sum;
  BodyChecksums();
  Status expect(std::string header, std::string algorithm, std::string bytes);
  std::vector<std::unique_ptr<Sum>> sums_;
};

}  // namespace tarn::target
