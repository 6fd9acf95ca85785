#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/http/client.h"
#include "target/upstream/servers.h"

namespace tarn::target {

/// An object as its upstream server describes it.
struct UpstreamObject {
  std::optional<std::uint64_t> size;     ///< bytes of the whole; a web server may not say
  std::string etag;                      ///< as it was sent, with its quotes; empty: none
  std::optional<std::int64_t> modified;  ///< Last-Modified, seconds since the epoch
  std::string content_type;
  std::string content_encoding;
  std::optional<std::uint64_t> part_at;  ///< of a 206: where the part begins
  http::Fields checksums;  ///< fields that say a checksum of the body, as BodyChecksums reads them

  /// True if both surely describe the same version.
  [[nodiscard]] bool is_same_version(const UpstreamObject& other) const;
};

/// A page of upstream's names.
struct UpstreamPage {
  struct Entry {
    std::string name;  ///< of a virtual directory, it ends in '/'
    std::uint64_t size = 0;
    std::string etag;
    std::optional<std::int64_t> modified;
  };
  std::vector<Entry> entries;
  bool more = false;
};

/// How one kind of server is spoken to: requests, and the meaning of answers. Pure: no I/O, no
/// state. Thread-safe.
///
/// S3 as in AWS's "Amazon S3 API Reference" (GetObject, HeadObject, HeadBucket, ListObjectsV2);
/// signatures by common/security/sigv4.h. Of web servers only RFC 9110 is expected.

/// GET or HEAD of an object. `more`: further fields, such as Range. `now`: seconds since the epoch,
/// for the signature. Nothing but the server's own credentials goes into it.
[[nodiscard]] http::ClientRequest object_request(const UpstreamServer& server, http::Method method,
                                                 std::string_view object, http::Fields more,
                                                 std::int64_t now);
/// A request that succeeds if the bucket is there and may be read.
[[nodiscard]] http::ClientRequest bucket_request(const UpstreamServer& server, std::int64_t now);
/// One page: names greater than `after` that begin with `prefix`. unsupported for a web server,
/// which has no lists.
[[nodiscard]] Result<http::ClientRequest> list_request(const UpstreamServer& server,
                                                       std::string_view prefix,
                                                       std::string_view after, std::size_t limit,
                                                       bool by_directory, std::int64_t now);

/// The object that the head of a 200 or 206 describes. bad_upstream for an answer that cannot be
/// used: S3's without entity tag, a 206 whose Content-Range cannot be read.
[[nodiscard]] Result<UpstreamObject> object_in(const UpstreamServer& server,
                                               const http::ClientResponse& answer);
/// bad_upstream for what is no list.
[[nodiscard]] Result<UpstreamPage> page_in(const UpstreamServer& server, std::string_view body);

/// What an answer that is no success means.
struct Refusal {
  Error error;                ///< names the server and what it said
  bool may_pass = false;      ///< the same request may succeed a moment later: 429, 5xx
  bool is_absent = false;     ///< 404: the object, or the bucket, which `names_object` tells apart
  bool names_object = false;  ///< S3's NoSuchKey: it is the object that is absent
};
/// `about`: "GET ais://..", for the message. `body` may be cut.
[[nodiscard]] Refusal refusal_in(const UpstreamServer& server, std::string_view about,
                                 const http::ClientResponse& answer);

}  // namespace tarn::target
