#include "common/base/wide_vectors.h"

namespace tarn {

#ifdef __x86_64__

namespace {
__attribute__((target("avx"))) void clear_upper_halves() noexcept { __builtin_ia32_vzeroupper(); }
}  // namespace

void end_wide_vectors() noexcept {
  static const bool has_them = __builtin_cpu_supports("avx");
  if (has_them) clear_upper_halves();
}

#else

void end_wide_vectors() noexcept {}

#endif

}  // namespace tarn
