#pragma once

#include <cstddef>
#include <span>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/exchange.h"

namespace tarn::target {

// Bodies of requests on their way in.

/// unavailable when bodies under way hold as much memory as they may.
Status check_memory();

/// Reads from the body until `into` is full or the body ends, and shows `see` each chunk while it
/// is hot. Returns how many bytes.
template <class See>
Task<Result<std::size_t>> read_full(http::Exchange& exchange, std::span<std::byte> into,
                                    const See& see) {
  std::size_t have = 0;
  while (have < into.size()) {
    CO_TRY(const std::size_t got, co_await exchange.read_some(into.subspan(have)));
    if (got == 0) break;
    see(into.subspan(have, got));
    have += got;
  }
  co_return have;
}

/// The same without a look at the chunks.
inline Task<Result<std::size_t>> read_full(http::Exchange& exchange, std::span<std::byte> into) {
  co_return co_await read_full(exchange, into, [](std::span<const std::byte>) {});
}

}  // namespace tarn::target
