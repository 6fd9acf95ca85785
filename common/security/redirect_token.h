#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/api/request_path.h"
#include "common/base/error.h"
#include "common/security/hmac.h"

namespace tarn::security {

/// Lengths of bodies that are no numbers. A client's chunks may get lost in a redirect, so an empty
/// body is then an error; a relay, which forwards its input, knows that an empty one is meant. A
/// relayed GET is marked as well: the proxy takes the answer as fast as its client does.
inline constexpr std::string_view kChunkedLength = "chunked";
inline constexpr std::string_view kRelayedLength = "relayed";

/// Claim of a proxy about a request that it redirects. It rides in the query of the Location,
/// signed. So a target takes writes only as a proxy sent them, with the body that the proxy
/// announced.
struct RedirectClaim {
  std::string method;             ///< "PUT"; GET and HEAD count as one
  std::string target_id;          ///< of the target that shall serve it
  std::string uname;              ///< bucket and object: "ais/@#/photos/cat.jpg"
  std::string proxy_id;           ///< pid
  std::int64_t issued_ns = 0;     ///< utm
  std::int64_t expires_s = 0;     ///< exp, seconds since the epoch
  std::uint64_t map_version = 0;  ///< vpams, base 36 on the wire
  std::uint64_t bmd_version = 0;  ///< vbmd
  std::string length;  ///< len: decimal, kChunkedLength, kRelayedLength, "" for verbs without body
  std::string request_id;  ///< rid
};

/// Signs redirects with a key derived from the cluster secret (HMAC-SHA256). Two epochs of the
/// secret are valid while it is being replaced: the new key signs, the previous one is still
/// believed.
///
/// The signed text is the method's class (GET for HEAD), target id, uname, then key and value of
/// every decoded query item but `u`. Items are ordered by key; equal keys keep their order. Each
/// field is a 32-bit big-endian length and its bytes, so that no two requests have the same signed
/// text.
class RedirectSigner {
 public:
  /// No previous key: only redirects of `key` are believed.
  explicit RedirectSigner(std::string_view key, std::string_view previous_key = {});
  /// Appends to `url`, which ends in '?', the query of the redirected request: that in `query`
  /// (provider, namespace, ..; a client's own marks are dropped), then pid, utm, vpams, vbmd, len,
  /// rid, exp and the signature u of it all. `len` and `rid` are left out when empty.
  void append_signed(std::string& url, const RedirectClaim& claim, const api::Query& query) const;
  /// The claim; none if the query has no mark of a redirect (no pid). invalid_argument when a mark
  /// is missing, malformed or there twice, forbidden when the signature is not ours. Expiry is not
  /// judged here. The claim's method, target_id and uname are the caller's and become part of the
  /// checked text.
  [[nodiscard]] Result<std::optional<RedirectClaim>> verify(std::string_view method,
                                                            std::string_view target_id,
                                                            std::string_view uname,
                                                            const api::Query& query) const;

 private:
  HmacKey key_;
  std::optional<HmacKey> previous_key_;
};

}  // namespace tarn::security
