#pragma once

#include "target/upstream/dialect.h"

namespace tarn::target {

/// S3 as in AWS's "Amazon S3 API Reference" (GetObject, HeadObject, HeadBucket, ListBuckets,
/// ListObjectsV2, multipart uploads); signatures by common/security/sigv4.h.
class S3Dialect : public WritableDialect {
 public:
  [[nodiscard]] http::ClientRequest object_request(const UpstreamServer& server,
                                                   http::Method method, std::string_view object,
                                                   http::Fields more,
                                                   std::int64_t now) const override;
  [[nodiscard]] http::ClientRequest bucket_request(const UpstreamServer& server,
                                                   std::int64_t now) const override;
  [[nodiscard]] Result<http::ClientRequest> list_request(const UpstreamServer& server,
                                                         const UpstreamListOrder& order,
                                                         std::int64_t now) const override;
  [[nodiscard]] Result<UpstreamObject> object_in(const UpstreamServer& server,
                                                 const http::ClientResponse& answer) const override;
  [[nodiscard]] Result<UpstreamPage> page_in(const UpstreamServer& server,
                                             const UpstreamListOrder& order,
                                             std::string_view body) const override;

  [[nodiscard]] http::ClientRequest buckets_request(const UpstreamServer& account,
                                                    const std::string& marker,
                                                    std::int64_t now) const override;
  [[nodiscard]] Result<UpstreamBuckets> buckets_in(const UpstreamServer& account,
                                                   std::string_view body) const override;
  [[nodiscard]] http::ClientRequest change_request(const UpstreamServer& server,
                                                   std::string_view object, UpstreamChange change,
                                                   std::int64_t now) const override;
  [[nodiscard]] std::string_view metadata_prefix() const override { return "x-amz-meta-"; }
  /// False for upper-case letters, which the service changes.
  [[nodiscard]] bool keeps_key(std::string_view key) const override;
  [[nodiscard]] UpstreamChange put_whole(const http::Fields& fields,
                                         const std::string& md5) const override;
  [[nodiscard]] std::optional<UpstreamChange> begin_upload(
      const http::Fields& fields) const override;
  [[nodiscard]] Result<std::string> upload_id_in(const UpstreamServer& server,
                                                 std::string_view body) const override;
  [[nodiscard]] UpstreamChange put_part(const std::string& id, std::uint64_t number,
                                        const std::string& md5) const override;
  [[nodiscard]] Result<std::string> part_tag_in(const http::ClientResponse& answer,
                                                const std::string& id,
                                                std::uint64_t number) const override;
  [[nodiscard]] UpstreamChange complete_upload(const std::string& id,
                                               const std::vector<std::string>& tags,
                                               const http::Fields& fields) const override;
  [[nodiscard]] Result<std::string> completed_tag_in(
      const UpstreamServer& server, const http::ClientResponse& answer) const override;
  /// A copy of the object onto itself ("CopyObject", AWS). unsupported above 5 GiB, AWS's limit.
  /// The object gets the access list of a new one.
  [[nodiscard]] Result<UpstreamChange> set_metadata(const UpstreamServer& server,
                                                    std::string_view object,
                                                    const UpstreamObject& now,
                                                    const http::Fields& fields) const override;
  [[nodiscard]] Result<std::string> changed_tag_in(
      const UpstreamServer& server, const http::ClientResponse& answer) const override;
  [[nodiscard]] std::optional<UpstreamChange> abort_upload(const std::string& id) const override;
  /// Reads it from the entity tag. Empty for uploads in parts, whose tag has a dash, and for
  /// objects encrypted with a customer's or a KMS key ("Checking object integrity", AWS).
  [[nodiscard]] std::string md5_in(const http::ClientResponse& answer) const override;

 protected:
  [[nodiscard]] Said said_in(const http::ClientResponse& answer) const override;
  /// Checksums of the whole body. `is_part`: the answer has a part of it alone.
  [[nodiscard]] virtual http::Fields checksums_in(const http::ClientResponse& answer,
                                                  bool is_part) const;
};

/// Google Cloud Storage: its XML API with HMAC keys ("Simple migration from Amazon S3"). Other than
/// AWS it
///
///   - unpacks objects that are stored with gzip unless asked not to (Accept-Encoding);
///   - sends checksums in x-goog-hash, and the storage class in x-goog-storage-class;
///   - adds Cache-Control and Expires to answers about objects that have none;
///   - lets a bucket's metadata be read by few who may read its objects, so a list stands for it;
///   - documents no If-Range;
///   - lists the buckets of the key's default project, all in one page.
class GcsDialect final : public S3Dialect {
 public:
  [[nodiscard]] http::ClientRequest object_request(const UpstreamServer& server,
                                                   http::Method method, std::string_view object,
                                                   http::Fields more,
                                                   std::int64_t now) const override;
  [[nodiscard]] bool understands_part(const http::Fields& fields) const override;
  [[nodiscard]] http::ClientRequest bucket_request(const UpstreamServer& server,
                                                   std::int64_t now) const override;
  /// bad_upstream also for a body that was unpacked on its way.
  [[nodiscard]] Result<UpstreamObject> object_in(const UpstreamServer& server,
                                                 const http::ClientResponse& answer) const override;
  [[nodiscard]] http::ClientRequest buckets_request(const UpstreamServer& account,
                                                    const std::string& marker,
                                                    std::int64_t now) const override;
  /// With the storage class, and without caching rules that the service adds to answers by itself.
  [[nodiscard]] Result<UpstreamChange> set_metadata(const UpstreamServer& server,
                                                    std::string_view object,
                                                    const UpstreamObject& now,
                                                    const http::Fields& fields) const override;
  [[nodiscard]] std::string md5_in(const http::ClientResponse& answer) const override;

 protected:
  [[nodiscard]] http::Fields checksums_in(const http::ClientResponse& answer,
                                          bool is_part) const override;
};

/// Seconds since the epoch of "2026-11-26T10:11:12.000Z", as AWS writes times in bodies. Nothing
/// for another text.
[[nodiscard]] std::optional<std::int64_t> parse_iso_time(const char* text);

/// A request of S3: the query as it is signed, date, payload and signature. `payload`: SHA-256 of
/// the body in hex, or kUnsignedPayload.
[[nodiscard]] http::ClientRequest s3_request(const UpstreamServer& server, http::Method method,
                                             const std::string& path,
                                             security::RequestToSign::Pairs query,
                                             http::Fields more, std::int64_t now,
                                             std::string_view payload = security::kEmptyPayload);

}  // namespace tarn::target
