#pragma once

#include <filesystem>
#include <string>

#include "common/base/error.h"

namespace tarn::security {

/// All of a small file that only its owner may read. invalid_argument when it is not there, or if
/// other users may read it.
[[nodiscard]] Result<std::string> read_secret_file(const std::filesystem::path& file);

}  // namespace tarn::security
