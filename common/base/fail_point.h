#pragma once

#include <string_view>

#include "common/base/error.h"

/// Fail points: named places where a test build can kill the process, return an error, wait, or
/// leave a safety out. Set by TARN_FAIL_POINTS="name=kill@3;other=sleep:50". docs/testing.md lists
/// the names. Without TARN_FAIL_POINTS_ENABLED every macro is empty and not even the name reaches
/// the binary.
#ifdef TARN_FAIL_POINTS_ENABLED

namespace tarn::fail_point {

/// Runs what is set for `name`: kills, sleeps, or returns an Errc::io error. Thread-safe.
Status hit(std::string_view name);
/// Whether the safety `name` has been switched off for this process. Logs each time it answers yes.
[[nodiscard]] bool is_off(std::string_view name);
/// Replaces all settings (unit tests). Format as in the environment.
void set(std::string_view settings);

}  // namespace tarn::fail_point

/// A step that may be made to fail: `FAIL_POINT("put.before_fsync");` returns the error.
#define FAIL_POINT(name) TRY_OK(::tarn::fail_point::hit(name))
#define CO_FAIL_POINT(name) CO_TRY_OK(::tarn::fail_point::hit(name))
/// Whether a safety is in force: `if (SAFETY("safety.fsync_file")) fsync(...)`.
#define SAFETY(name) (!::tarn::fail_point::is_off(name))

#else

#define FAIL_POINT(name) static_cast<void>(0)
#define CO_FAIL_POINT(name) static_cast<void>(0)
#define SAFETY(name) true

#endif
