#pragma once

#include <cstddef>

namespace tarn {

/// First step of both programs, before any thread exists. Blocks SIGTERM and SIGINT in all threads
/// so that wait_for_stop() gets them. Ignores SIGPIPE (a closed socket is an error of the write),
/// and raises the limit on open files as far as it goes.
void prepare_process();

/// Use of a file descriptor. When a process runs out of them, the rest must still work: the index
/// of a drive, the lease, answers with 503.
enum class FdUse { connection, data_file };

/// True if a descriptor that was just opened may be used; false if it must be closed because too
/// few are left: connections get three quarters of the limit on open files (RLIMIT_NOFILE, as it is
/// now), data files more, and some stay free. Relies on the kernel's giving the lowest free number.
[[nodiscard]] bool fd_is_within_limit(int fd, FdUse use);

/// True if the process has been asked to stop, and wait_for_stop() has not returned it yet.
[[nodiscard]] bool stop_is_pending();

/// Number of descriptors that this process may have (RLIMIT_NOFILE, as it is now).
[[nodiscard]] std::size_t open_files_max();

/// Asks this process to stop, as SIGTERM from outside does.
void request_stop();

/// Waits until the process is asked to stop. The name of the signal: "SIGTERM" or "SIGINT".
[[nodiscard]] const char* wait_for_stop();

}  // namespace tarn
