#pragma once

namespace tarn {

/// To be called after functions of ISA-L: 2.30 leaves the upper halves of the vector registers in
/// use (it has no vzeroupper). The next ordinary floating-point or copying instruction of ours then
/// takes a quarter of a microsecond (measured on Sapphire Rapids: a tenth of decoding). Does
/// nothing on processors without AVX.
void end_wide_vectors() noexcept;

}  // namespace tarn
