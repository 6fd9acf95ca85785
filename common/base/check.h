#pragma once

#include <source_location>
#include <string_view>

namespace tarn::detail {
[[noreturn]] void check_failed(std::string_view condition, std::source_location where) noexcept;
}  // namespace tarn::detail

/// Stays on in release builds: for faults that would otherwise corrupt data. Prints and aborts.
#define TARN_CHECK(condition)                                                    \
  do {                                                                           \
    if (!(condition)) [[unlikely]]                                               \
      ::tarn::detail::check_failed(#condition, std::source_location::current()); \
  } while (false)

/// The same in builds without NDEBUG: for the rest.
#ifdef NDEBUG
#define TARN_DCHECK(condition) static_cast<void>(0)
#else
#define TARN_DCHECK(condition) TARN_CHECK(condition)
#endif
