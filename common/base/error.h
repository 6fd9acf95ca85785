#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace tarn {

/// Kinds of failure that a caller may want to branch on. All else about a failure is in
/// Error::message.
enum class Errc {
  invalid_argument,       ///< the request or the configuration is wrong as written
  unauthenticated,        ///< no or a wrong proof of identity
  forbidden,              ///< known, but not allowed
  bucket_not_found,       ///< the bucket surely does not exist
  remote_not_known,       ///< a bucket with an upstream that the cluster does not know
  object_not_found,       ///< the object surely does not exist
  not_found,              ///< any other thing that surely does not exist
  bucket_exists,          ///< create of a bucket that is there
  conflict,               ///< collides with the present state
  locked,                 ///< another request is changing it right now
  precondition_failed,    ///< If-Match, If-None-Match, or a lost compare-and-swap
  method_not_allowed,     ///< the path exists, the verb does not
  expectation_failed,     ///< an expectation of the request that is not met
  request_timeout,        ///< the client sends its request too slowly
  version_unsupported,    ///< a version of HTTP that is not spoken here
  length_required,        ///< a body without a length that we could trust
  range_not_satisfiable,  ///< a range outside the object
  uri_too_long,
  header_too_large,
  body_too_large,
  checksum_mismatch,  ///< the bytes that came are not those that the sender meant
  no_space,           ///< the drive is full; deletes and reads still work
  unsupported,        ///< a word of a feature that this version does not have
  unavailable,        ///< try again soon: a node or drive is away, a lease has run out
  timeout,
  bad_upstream,  ///< an upstream server refuses, or its answer breaks the rules
  cancelled,     ///< asked to stop; never logged as an error
  disconnected,  ///< the peer went away
  io,            ///< a drive or the network failed
  corrupt,       ///< stored bytes do not match their checksum or their format
  internal,      ///< a bug of ours
};

/// The name of `code`, as it stands in logs: "no_space".
[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// A failure: a code to branch on and a sentence that names its subject.
struct Error {
  Errc code = Errc::internal;
  std::string message;
};

/// A value or an Error. Dropping one unread is a compiler warning, which an alias would not cause.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

/// Success, or an Error.
using Status = Result<void>;

/// Builds the failure that converts to any Result: `return fail(Errc::io, "open {}: {}", path,
/// why)`.
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(Errc code, fmt::format_string<Args...> text,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(text, std::forward<Args>(args)...)});
}

[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

/// Errc::io (no_space for ENOSPC and EDQUOT) with the text of `errno_value` after `what`.
[[nodiscard]] tl::unexpected<Error> fail_errno(int errno_value, std::string_view what);

}  // namespace tarn

#define TARN_TRY_CAT2_(a, b) a##b
#define TARN_TRY_CAT_(a, b) TARN_TRY_CAT2_(a, b)
// NOLINTBEGIN(bugprone-macro-parentheses): names, declarations and keywords
#define TARN_TRY_IMPL_(ret, tmp, decl, expr)                             \
  auto tmp = (expr);                                                     \
  if (!tmp) ret ::tl::unexpected<::tarn::Error>(std::move(tmp).error()); \
  decl = std::move(*tmp)
#define TARN_CHECK_IMPL_(ret, tmp, expr)                                   \
  do {                                                                     \
    auto tmp = (expr);                                                     \
    if (!tmp) ret ::tl::unexpected<::tarn::Error>(std::move(tmp).error()); \
  } while (false)
// NOLINTEND(bugprone-macro-parentheses)

/// `TRY(auto x, f());` declares x or returns f's error. CO_TRY does the same in a coroutine.
#define TRY(decl, expr) TARN_TRY_IMPL_(return, TARN_TRY_CAT_(try_, __LINE__), decl, expr)
#define CO_TRY(decl, expr) TARN_TRY_IMPL_(co_return, TARN_TRY_CAT_(try_, __LINE__), decl, expr)
/// The same for a Status: `TRY_OK(f());`
#define TRY_OK(expr) TARN_CHECK_IMPL_(return, TARN_TRY_CAT_(try_, __LINE__), expr)
#define CO_TRY_OK(expr) TARN_CHECK_IMPL_(co_return, TARN_TRY_CAT_(try_, __LINE__), expr)
