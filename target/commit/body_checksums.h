#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/api/custom_metadata.h"
#include "common/base/error.h"
#include "common/http/message.h"

namespace tarn::target {

/// The checksums that a client sent along with a body, computed over what arrived. Content-MD5 (RFC
/// 1864, base64), Ais-Checksum-Type/-Value (hex), x-amz-checksum-* (base64).
/// And the checksum that the bucket keeps of its objects (its property checksum.type).
class BodyChecksums {
 public:
  BodyChecksums();  ///< of a body for which none was sent
  /// invalid_argument for an unknown type or a value of the wrong form.
  [[nodiscard]] static Result<BodyChecksums> from(const http::RequestHead& head);
  ~BodyChecksums();
  BodyChecksums(BodyChecksums&&) noexcept;

  /// Computes the bucket's checksum, too. `type` is one of api::checksum_type_of().
  void keep(std::string_view type);
  /// True if update() must see the bytes: not for nothing, and not for an xxhash alone.
  [[nodiscard]] bool needs_bytes() const;
  void update(std::span<const std::byte> bytes);
  /// checksum_mismatch when one of them differs. `xxh64` has been computed anyway.
  Status check(std::uint64_t xxh64);
  /// Notes in `custom` the type and value that keep() asked for, in place of all reserved keys.
  /// XXH64 is in every record and is not noted. After check(), which returns `xxh64`.
  void note_kept(api::CustomMetadata& custom) const;

 private:
  struct Sum;
  Sum& add(std::string algorithm);
  Status expect(std::string header, std::string algorithm, std::string bytes);
  std::vector<std::unique_ptr<Sum>> sums_;
  std::string kept_type_;  ///< "": the default
};

}  // namespace tarn::target
