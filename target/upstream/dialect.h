#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/http/client.h"
#include "common/security/sigv4.h"
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
/// A request that changes an object of S3.
struct UpstreamChange {
  http::Method method = http::Method::put;
  security::RequestToSign::Pairs query = {};  ///< of an upload in parts
  http::Fields fields = {};
  std::string body = {};           ///< a small one, which is signed
  bool has_streamed_body = false;  ///< its bytes are not signed: a field says their checksum
};
/// unsupported for a web server, which takes no writes.
[[nodiscard]] Result<http::ClientRequest> change_request(const UpstreamServer& server,
                                                         std::string_view object,
                                                         UpstreamChange change, std::int64_t now);
/// The id of an upload in parts, in the answer to POST ?uploads. bad_upstream without one.
[[nodiscard]] Result<std::string> upload_id_in(const UpstreamServer& server, std::string_view body);
/// The body of CompleteMultipartUpload. `tags`: the entity tags of the parts, the first one first.
[[nodiscard]] std::string complete_body(const std::vector<std::string>& tags);
/// The entity tag that CompleteMultipartUpload answers with. Its status is 200 also where it has
/// failed: the body then has an error (bad_upstream, or unavailable for what may pass).
[[nodiscard]] Result<std::string> completed_tag_in(const UpstreamServer& server,
                                                   std::string_view body);
/// The MD5 of the body that an answer of S3 says by its entity tag, in base64; empty: it says none.
/// It does not for uploads in parts, whose tag has a dash, and for objects that are encrypted with
/// a customer's or a KMS key ("Checking object integrity", AWS).
[[nodiscard]] std::string md5_in(const http::ClientResponse& answer);
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
  bool names_bucket = false;  ///< S3's NoSuchBucket
};
/// `about`: "GET ais://..", for the message. `body` may be cut.
[[nodiscard]] Refusal refusal_in(const UpstreamServer& server, std::string_view about,
                                 const http::ClientResponse& answer);

}  // namespace tarn::target
