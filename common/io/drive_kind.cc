#include "common/io/drive_kind.h"

#include <fstream>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fmt/format.h>

namespace tarn::io {

DriveKind detect_drive_kind(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return DriveKind::rotational;
  const std::string device =
      fmt::format("/sys/dev/block/{}:{}", major(info.st_dev), minor(info.st_dev));
  for (const char* place : {"/queue/rotational", "/../queue/rotational"}) {
    std::ifstream file(device + place);
    int rotational = 1;
    if (file >> rotational) return rotational == 0 ? DriveKind::solid : DriveKind::rotational;
  }
  return DriveKind::rotational;
}

}  // namespace tarn::io
