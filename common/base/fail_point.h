#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/error.h"

/// Fail points: named places where a test program can kill the process, return an error, wait, or
/// leave a safety out. docs/testing.md lists the names. Objects are compiled once, for released
/// programs and for tests; which definition of these functions a program gets is decided when it
/// is linked:
///   * tarn_no_fail_points (released programs): nothing happens, and there is no switch;
///   * tarn_fail_points (programs for tests): TARN_FAIL_POINTS="name=kill@3;other=sleep:50".
/// The compiler turns names into numbers, so no object file has a name in it.
namespace tarn::fail_point {

using Id = std::uint64_t;

/// Returns the number of a fail point's name: FNV-1a with 64 bits (draft-eastlake-fnv, section 2).
/// `hash` is the number of the text before `name`. The macros evaluate it at compile time.
[[nodiscard]] constexpr Id id_of(std::string_view name, Id hash = 0xcbf29ce484222325U) noexcept {
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3U;
  }
  return hash;
}

namespace detail {
consteval Id constant(std::string_view name) { return id_of(name); }
}  // namespace detail

/// Runs the action set for the point: kills, sleeps, or returns an Errc::io error. Thread-safe.
Status hit(Id point);
/// True if the safety has been switched off for this process. Logs each time it is. Thread-safe.
[[nodiscard]] bool is_off(Id safety);
/// The identifier of a new node or drive, whose directory is `of`; placement follows from it. It is
/// random_id(length), but for programs for tests that have TARN_TEST_IDENTITIES (fail_points.h).
/// Thread-safe.
[[nodiscard]] std::string identity(std::size_t length, std::string_view of);
/// The text by which the drive at `path` is placed: the path, but for programs for tests that have
/// TARN_TEST_PLACES (fail_points.h). Thread-safe.
[[nodiscard]] std::string place_of(std::string_view path);

}  // namespace tarn::fail_point

/// A step that may be made to fail: `FAIL_POINT("put.before_fsync");` returns the error.
#define FAIL_POINT(name) TRY_OK(::tarn::fail_point::hit(::tarn::fail_point::detail::constant(name)))
#define CO_FAIL_POINT(name) \
  CO_TRY_OK(::tarn::fail_point::hit(::tarn::fail_point::detail::constant(name)))
/// A step whose name is known only at run time: FAIL_POINT_OF("loop.turn.", loop.name()).
#define FAIL_POINT_OF(prefix, name) \
  TRY_OK(::tarn::fail_point::hit(   \
      ::tarn::fail_point::id_of(name, ::tarn::fail_point::detail::constant(prefix))))
/// True if a safety is in force: `if (SAFETY("safety.fsync_file")) fsync(...)`.
#define SAFETY(name) (!::tarn::fail_point::is_off(::tarn::fail_point::detail::constant(name)))
