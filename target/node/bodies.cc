#include "target/node/bodies.h"

#include <cstdint>

#include "common/base/buffer_pool.h"
#include "common/base/memory_limit.h"

namespace tarn::target {

/// Bodies under way may hold a quarter of the memory that this process may fill: the rest is for
/// the index, the kernel's part of connections, and pages.
Status check_memory() {
  static const std::uint64_t allowed = memory_limit() / 4;
  const std::uint64_t held = PooledBuffer::bytes_in_use();
  if (held + 2 * PooledBuffer::kSmallBytes <= allowed) return {};
  return fail(Errc::unavailable,
              "bodies that are under way hold {} bytes of memory, and may hold {}; try again", held,
              allowed);
}

}  // namespace tarn::target
