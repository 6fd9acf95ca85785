#pragma once

#include <string_view>

#include "common/base/fail_point.h"

/// The registry of fail points in programs for tests (library tarn_fail_points). Released programs
/// do not have it.
namespace tarn::fail_point {

/// Replaces all settings; for unit tests. Format as in the environment variable TARN_FAIL_POINTS,
/// which the first hit reads: `NAME=ACTION[@HIT];...`. ACTION is kill, error, off or
/// sleep:MILLISECONDS. HIT is the number of the one hit that is meant, or the path of a file: the
/// first hit while there is one. Thread-safe.
///
/// TARN_FAIL_POINTS_DELAY=MILLISECONDS makes one hit in four, of any point, wait up to that long.
/// Concurrent steps then come in other orders, as on a busy machine.
///
/// TARN_TEST_IDENTITIES=TEXT makes the identifiers of new nodes and drives follow from TEXT and
/// from the last two parts of their directory's path. Their number among those that the process has
/// made there counts too. A test that sets another TEXT for each start has the same placement in
/// each run, and no identifier twice.
///
/// TARN_TEST_PLACES=TEXT has drives placed by TEXT and the last two parts of their path, not by all
/// of it: the directory of a test has another name in each run.
void set(std::string_view settings);

}  // namespace tarn::fail_point
