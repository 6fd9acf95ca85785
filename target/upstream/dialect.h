#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/api/custom_metadata.h"
#include "common/base/error.h"
#include "common/http/client.h"
#include "common/security/sigv4.h"
#include "target/upstream/servers.h"

namespace tarn::target {

/// An object as its upstream server describes it.
struct UpstreamObject {
  std::optional<std::uint64_t> size;     ///< bytes of the whole; a web server may not send it
  std::string etag;                      ///< as it was sent, with its quotes; empty: none
  std::optional<std::int64_t> modified;  ///< Last-Modified, seconds since the epoch
  std::string content_type;
  std::string content_encoding;
  api::CustomMetadata custom;            ///< pairs that users noted beside it, keys in lower case
  bool hides_metadata = false;           ///< has further ones, which no answer of ours can have
  std::optional<std::uint64_t> part_at;  ///< of a 206: where the part begins
  http::Fields checksums;  ///< fields with a checksum of the body, as BodyChecksums reads them
  http::Fields further;    ///< fields that set_metadata() must repeat, or the object loses them

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
  std::vector<Entry> entries;  ///< sorted by the bytes of their names
  bool more = false;
  std::string marker;  ///< with `more`: the server's own word for where the next page begins
};

/// A page to ask for: names greater than `after` that begin with `prefix`.
struct UpstreamListOrder {
  std::string prefix;
  std::string after;
  std::size_t limit = 1000;
  bool by_directory = false;
  std::string marker = {};  ///< of the page before; empty for the first one
};

/// A page of the buckets of an account.
struct UpstreamBuckets {
  std::vector<std::string> names;
  std::string marker;  ///< start of the next page, in the server's words; empty: the last one
};

/// A request that changes an object.
struct UpstreamChange {
  http::Method method = http::Method::put;
  security::RequestToSign::Pairs query = {};  ///< of an upload in parts
  http::Fields fields = {};
  std::string body = {};  ///< a small one, which S3 has signed
  /// Length of a body that is not in `body`. A field has its checksum, and no signature covers it.
  std::optional<std::uint64_t> streamed_bytes = std::nullopt;
};

/// Meaning of an answer that is no success.
struct Refusal {
  Error error;                ///< names the server and its message
  bool may_pass = false;      ///< the same request may succeed a moment later: 408, 429, 5xx
  bool is_absent = false;     ///< 404: the object, or the bucket: see `names_object`
  bool names_object = false;  ///< by the server's code, the object is absent
  bool names_bucket = false;  ///< by the server's code, the bucket is absent
  std::string region;         ///< another region, where the bucket is, as S3 reports
};

/// Requests to one kind of server, and the meaning of its answers. Pure: no I/O, no state.
/// Thread-safe. One object a kind, see dialect_of().
///
/// `now`: seconds since the epoch, for signatures. Nothing but the server's own credentials goes
/// into a request.
class Dialect {
 public:
  Dialect() = default;
  virtual ~Dialect() = default;
  Dialect(const Dialect&) = delete;
  Dialect& operator=(const Dialect&) = delete;

  /// GET or HEAD of an object. `more`: further fields, such as Range.
  [[nodiscard]] virtual http::ClientRequest object_request(const UpstreamServer& server,
                                                           http::Method method,
                                                           std::string_view object,
                                                           http::Fields more,
                                                           std::int64_t now) const = 0;
  /// True if this kind of server does what `fields` (Range, If-Range) ask for, as RFC 9110 has it.
  /// If false, ask by HEAD first, and then for "bytes=A-B" with If-Match.
  [[nodiscard]] virtual bool understands_part(const http::Fields& fields) const;
  /// A request that succeeds if the bucket is there and may be read.
  [[nodiscard]] virtual http::ClientRequest bucket_request(const UpstreamServer& server,
                                                           std::int64_t now) const = 0;
  /// unsupported for a server that has no lists.
  [[nodiscard]] virtual Result<http::ClientRequest> list_request(const UpstreamServer& server,
                                                                 const UpstreamListOrder& order,
                                                                 std::int64_t now) const = 0;
  /// The object that the head of a 200 or 206 describes. bad_upstream for an answer that cannot be
  /// used: S3's without entity tag, a 206 whose Content-Range cannot be read.
  [[nodiscard]] virtual Result<UpstreamObject> object_in(
      const UpstreamServer& server, const http::ClientResponse& answer) const = 0;
  /// The page in the answer to `order`, without names up to `order.after`. It may be empty and yet
  /// have more: ask again with its marker. bad_upstream for what is no list.
  [[nodiscard]] virtual Result<UpstreamPage> page_in(const UpstreamServer& server,
                                                     const UpstreamListOrder& order,
                                                     std::string_view body) const = 0;
  /// `about`: "GET s3://..", for the message. The body of `answer` may be cut.
  [[nodiscard]] Refusal refusal_in(const UpstreamServer& server, std::string_view about,
                                   const http::ClientResponse& answer) const;

 protected:
  /// Code and message of a refusal, and the region of its bucket; empty where the server has none.
  struct Said {
    std::string code;
    std::string message;
    std::string region = {};
  };
  [[nodiscard]] virtual Said said_in(const http::ClientResponse& answer) const = 0;
};

/// A kind of server that has accounts and takes writes. Changes are described here and signed by
/// change_request(). Large objects go in parts: begin_upload(), put_part() in any order,
/// complete_upload().
class WritableDialect : public Dialect {
 public:
  /// A page of an account's buckets. `account` as UpstreamServers::account_of(). `marker`: of the
  /// page before; empty for the first one.
  [[nodiscard]] virtual http::ClientRequest buckets_request(const UpstreamServer& account,
                                                            const std::string& marker,
                                                            std::int64_t now) const = 0;
  /// The page in the answer to buckets_request(). bad_upstream for another answer.
  [[nodiscard]] virtual Result<UpstreamBuckets> buckets_in(const UpstreamServer& account,
                                                           std::string_view body) const = 0;
  /// The request of a change, signed.
  [[nodiscard]] virtual http::ClientRequest change_request(const UpstreamServer& server,
                                                           std::string_view object,
                                                           UpstreamChange change,
                                                           std::int64_t now) const = 0;
  /// Fields that keep custom metadata are called so, and then as the key ("x-amz-meta-").
  [[nodiscard]] virtual std::string_view metadata_prefix() const = 0;
  /// True if `key` of custom metadata comes back as it was sent.
  [[nodiscard]] virtual bool keeps_key(std::string_view key) const = 0;
  /// PUT of a small object. `fields`: its Content-Type and Content-Encoding, and those of its
  /// custom metadata; `md5`: of its bytes, in base64.
  [[nodiscard]] virtual UpstreamChange put_whole(const http::Fields& fields,
                                                 const std::string& md5) const = 0;
  /// Begins an upload; nothing for a server that needs no beginning: the caller chooses an id of
  /// letters and digits.
  [[nodiscard]] virtual std::optional<UpstreamChange> begin_upload(
      const http::Fields& fields) const = 0;
  /// The id of an upload in parts, in the answer to begin_upload(). bad_upstream without one.
  [[nodiscard]] virtual Result<std::string> upload_id_in(const UpstreamServer& server,
                                                         std::string_view body) const = 0;
  /// `number`: of the part, from 1.
  [[nodiscard]] virtual UpstreamChange put_part(const std::string& id, std::uint64_t number,
                                                const std::string& md5) const = 0;
  /// The tag by which complete_upload() names a part that was accepted. bad_upstream without one.
  [[nodiscard]] virtual Result<std::string> part_tag_in(const http::ClientResponse& answer,
                                                        const std::string& id,
                                                        std::uint64_t number) const = 0;
  /// `tags`: of the parts, the first one first.
  [[nodiscard]] virtual UpstreamChange complete_upload(const std::string& id,
                                                       const std::vector<std::string>& tags,
                                                       const http::Fields& fields) const = 0;
  /// The entity tag in the answer to complete_upload(). S3 answers 200 also where it has failed:
  /// the body then has an error (bad_upstream, or unavailable for what may pass).
  [[nodiscard]] virtual Result<std::string> completed_tag_in(
      const UpstreamServer& server, const http::ClientResponse& answer) const = 0;
  /// Sets for an object, whose bytes stay, the Content-Type, Content-Encoding and custom metadata
  /// of `fields`, and no further fields. `now`: what upstream has; the server answers 412 if it has
  /// another version by then. unsupported for what this kind of server does not change.
  [[nodiscard]] virtual Result<UpstreamChange> set_metadata(const UpstreamServer& server,
                                                            std::string_view object,
                                                            const UpstreamObject& now,
                                                            const http::Fields& fields) const = 0;
  /// The entity tag in the answer to set_metadata(). Errors as completed_tag_in().
  [[nodiscard]] virtual Result<std::string> changed_tag_in(
      const UpstreamServer& server, const http::ClientResponse& answer) const = 0;
  /// Removes the parts of an upload. Nothing where the server does that by itself.
  [[nodiscard]] virtual std::optional<UpstreamChange> abort_upload(const std::string& id) const = 0;
  /// The MD5 of the body that an answer to put_whole(), put_part() or a GET names, in base64;
  /// empty: it names none.
  [[nodiscard]] virtual std::string md5_in(const http::ClientResponse& answer) const = 0;
};

[[nodiscard]] const Dialect& dialect_of(const UpstreamServer& server);
/// unsupported for a web server, which takes no writes.
[[nodiscard]] Result<const WritableDialect*> writable_dialect_of(const UpstreamServer& server);
/// The same by the kind alone: null for web servers.
[[nodiscard]] const WritableDialect* writable_dialect_of(api::UpstreamKind kind);

// Parts of all dialects.

/// The path of the server's URL, "/" without one.
[[nodiscard]] std::string service_path(const UpstreamServer& server);
/// "/base/name": `object` below the path of the server's URL, percent-encoded.
[[nodiscard]] std::string upstream_path(const UpstreamServer& server, std::string_view object);
/// Size, version, type and custom metadata in an answer: all of object_in() but checksums.
[[nodiscard]] Result<UpstreamObject> described_object(const UpstreamServer& server,
                                                      const http::ClientResponse& answer);
/// True if the body of an answer that describes `object` is not the whole of it.
[[nodiscard]] bool is_part_of(const UpstreamObject& object, const http::ClientResponse& answer);
/// Sorts entries, and removes those up to `after`.
void tidy_page(UpstreamPage& page, std::string_view after);

}  // namespace tarn::target
