#include "common/base/error.h"

#include <cerrno>
#include <system_error>

namespace tarn {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument: return "invalid_argument";
    case Errc::unauthenticated: return "unauthenticated";
    case Errc::forbidden: return "forbidden";
    case Errc::bucket_not_found: return "bucket_not_found";
    case Errc::remote_not_known: return "remote_not_known";
    case Errc::object_not_found: return "object_not_found";
    case Errc::not_found: return "not_found";
    case Errc::bucket_exists: return "bucket_exists";
    case Errc::conflict: return "conflict";
    case Errc::locked: return "locked";
    case Errc::precondition_failed: return "precondition_failed";
    case Errc::method_not_allowed: return "method_not_allowed";
    case Errc::expectation_failed: return "expectation_failed";
    case Errc::request_timeout: return "request_timeout";
    case Errc::version_unsupported: return "version_unsupported";
    case Errc::length_required: return "length_required";
    case Errc::range_not_satisfiable: return "range_not_satisfiable";
    case Errc::uri_too_long: return "uri_too_long";
    case Errc::header_too_large: return "header_too_large";
    case Errc::body_too_large: return "body_too_large";
    case Errc::checksum_mismatch: return "checksum_mismatch";
    case Errc::no_space: return "no_space";
    case Errc::unsupported: return "unsupported";
    case Errc::unavailable: return "unavailable";
    case Errc::timeout: return "timeout";
    case Errc::bad_upstream: return "bad_upstream";
    case Errc::cancelled: return "cancelled";
    case Errc::disconnected: return "disconnected";
    case Errc::io: return "io";
    case Errc::corrupt: return "corrupt";
    case Errc::internal: return "internal";
  }
  return "unknown";
}

tl::unexpected<Error> fail_errno(int errno_value, std::string_view what) {
  const auto code = [errno_value] {
    switch (errno_value) {
      case ENOSPC:
      case EDQUOT: return Errc::no_space;
      case EMFILE:
      case ENFILE:
      case ENOMEM: return Errc::unavailable;  // of the process or the machine: passes with the load
      default: return Errc::io;
    }
  };
  return fail(code(), "{}: {}", what, std::generic_category().message(errno_value));
}

}  // namespace tarn
