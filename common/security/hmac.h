#pragma once

#include <array>
#include <string_view>

#include <openssl/sha.h>

namespace tarn::security {

/// HMAC-SHA256 (RFC 2104) under one key. The key's two blocks are hashed once, when it is made.
/// Thread-safe. Empty keys are allowed.
class HmacKey {
 public:
  explicit HmacKey(std::string_view key);
  [[nodiscard]] std::array<char, SHA256_DIGEST_LENGTH> sign(std::string_view message) const;

 private:
  SHA256_CTX inner_{};
  SHA256_CTX outer_{};
};

}  // namespace tarn::security
