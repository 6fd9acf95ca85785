#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tarn::detail {

void check_failed(std::string_view condition, std::source_location where) noexcept {
  std::fprintf(stderr, "CHECK failed: %.*s at %s:%u in %s\n", static_cast<int>(condition.size()),
               condition.data(), where.file_name(), where.line(), where.function_name());
  std::fflush(stderr);
  std::abort();
}

}  // namespace tarn::detail
