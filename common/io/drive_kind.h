#pragma once

#include <string>

namespace tarn::io {

/// What a drive pays for moving between files: a rotational one 10 ms and more each time, a
/// solid-state one next to nothing.
enum class DriveKind { rotational, solid };

/// What the kernel says of the drive below `path` (/sys/dev/block/MAJOR:MINOR/queue/rotational, of
/// the whole disk when it is a partition). Where it says nothing (FUSE, network file systems,
/// tmpfs) rotational: turns cost a solid-state drive little, their lack costs a rotational one
/// everything.
[[nodiscard]] DriveKind detect_drive_kind(const std::string& path);

}  // namespace tarn::io
