#pragma once

#include <string_view>

namespace tarn::security {

/// Purposes for which keys are derived from the cluster secret: proxies and targets must use the
/// same words. A purpose that changes its meaning gets another number.
inline constexpr std::string_view kRedirectPurpose = "tarn redirect 1";         ///< RedirectSigner
inline constexpr std::string_view kNodeAuthPurpose = "tarn node auth 1";        ///< NodeAuth
inline constexpr std::string_view kSecretCheckPurpose = "tarn secret check 1";  ///< fingerprint()

}  // namespace tarn::security
