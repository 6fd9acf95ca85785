// OpenSSL's EVP_MAC and EVP_MD copy their state with malloc, which costs more than hashing a short
// message does. The functions used here are the same code beneath them and copy with '='.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "common/security/hmac.h"

#include <algorithm>

#include "common/base/check.h"

namespace tarn::security {
namespace {

using Block = std::array<unsigned char, SHA256_CBLOCK>;
using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

/// The state after the key's block, each byte of it changed by `pad`.
SHA256_CTX begin_with(Block key, unsigned char pad) {
  for (unsigned char& byte : key) byte ^= pad;
  SHA256_CTX state;
  TARN_CHECK(SHA256_Init(&state) == 1 && SHA256_Update(&state, key.data(), key.size()) == 1);
  return state;
}

Digest finish(SHA256_CTX state, const void* bytes, std::size_t count) {
  Digest out{};
  TARN_CHECK(SHA256_Update(&state, bytes, count) == 1 && SHA256_Final(out.data(), &state) == 1);
  return out;
}

}  // namespace

HmacKey::HmacKey(std::string_view key) {
  Block block{};
  if (key.size() > block.size())
    SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), block.data());
  else
    std::copy(key.begin(), key.end(), block.begin());
  inner_ = begin_with(block, 0x36);
  outer_ = begin_with(block, 0x5c);
}

std::array<char, SHA256_DIGEST_LENGTH> HmacKey::sign(std::string_view message) const {
  const Digest inner = finish(inner_, message.data(), message.size());
  const Digest digest = finish(outer_, inner.data(), inner.size());
  std::array<char, SHA256_DIGEST_LENGTH> out{};
  std::copy(digest.begin(), digest.end(), out.begin());
  return out;
}

}  // namespace tarn::security
