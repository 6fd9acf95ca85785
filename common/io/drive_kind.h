#pragma once

#include <string>

namespace tarn::io {

/// Kind of a drive, by its cost of moving between files: 10 ms and more each time for a rotational
/// one, next to nothing for a solid-state one.
enum class DriveKind { rotational, solid };

/// Kind of the drive below `path`, as the kernel reports it
/// (/sys/dev/block/MAJOR:MINOR/queue/rotational, of the whole disk when it is a partition). Where
/// it reports none (FUSE, network file systems, tmpfs) rotational: turns cost a solid-state drive
/// little, their lack costs a rotational one nearly all its rate.
[[nodiscard]] DriveKind detect_drive_kind(const std::string& path);

}  // namespace tarn::io
