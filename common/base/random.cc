#include "common/base/random.h"

#include <cstring>
#include <sys/random.h>

#include "common/base/check.h"

namespace tarn {

std::string random_bytes(std::size_t count) {
  std::string out(count, '\0');
  for (std::size_t have = 0; have < count;) {
    const ssize_t got = getrandom(out.data() + have, count - have, 0);
    TARN_CHECK(got > 0);
    have += static_cast<std::size_t>(got);
  }
  return out;
}

std::uint64_t random_u64() {
  const std::string bytes = random_bytes(sizeof(std::uint64_t));
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string random_id(std::size_t length) {
  std::string out;
  for (const char byte : random_bytes(length)) {
    // The bias of the remainder does not matter: ids need to differ, not to be secret.
    out += kIdAlphabet[static_cast<unsigned char>(byte) % kIdAlphabet.size()];
  }
  return out;
}

}  // namespace tarn
