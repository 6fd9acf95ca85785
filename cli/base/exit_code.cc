#include "cli/base/exit_code.h"

#include <cstdio>

#include "cli/base/printing.h"

namespace tarn::cli {

Exit exit_for(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
    case Errc::unsupported: return Exit::usage;
    case Errc::unauthenticated:
    case Errc::forbidden: return Exit::denied;
    case Errc::bucket_not_found:
    case Errc::remote_not_known:
    case Errc::object_not_found:
    case Errc::not_found: return Exit::not_found;
    case Errc::bucket_exists:
    case Errc::conflict:
    case Errc::precondition_failed: return Exit::conflict;
    case Errc::checksum_mismatch:
    case Errc::corrupt: return Exit::integrity;
    case Errc::unavailable:
    case Errc::disconnected: return Exit::temporary;
    case Errc::request_timeout:
    case Errc::timeout: return Exit::timeout;
    default: return Exit::error;
  }
}

Exit complain(std::string_view command, const Error& error) {
  fmt::print(stderr, "tarn {}: {}\n", command, printable(error.message));
  return exit_for(error.code);
}

}  // namespace tarn::cli
