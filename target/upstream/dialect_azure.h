#pragma once

#include "target/upstream/dialect.h"

namespace tarn::target {

/// Azure's Blob service, as in "Azure Storage REST API": a bucket is a container, an object a block
/// blob. Calls: Get Blob, Get Blob Properties, List Containers, List Blobs, Put Blob, Put Block,
/// Put Block List, Delete Blob. Signatures by common/security/azure_signature.h, or a shared access
/// signature.
///
/// Parts are blocks, which the service forgets by itself when nothing commits them for a week. It
/// also forgets them when another write of the name is committed: complete_upload() is then
/// refused with InvalidBlockList, and nothing has changed. Block ids begin with the upload's id, so
/// a request that comes twice has the same effect as one.
class AzureDialect final : public WritableDialect {
 public:
  [[nodiscard]] http::ClientRequest object_request(const UpstreamServer& server,
                                                   http::Method method, std::string_view object,
                                                   http::Fields more,
                                                   std::int64_t now) const override;
  /// False for all but "bytes=A-" and "bytes=A-B", and for If-Range.
  [[nodiscard]] bool understands_part(const http::Fields& fields) const override;
  [[nodiscard]] http::ClientRequest bucket_request(const UpstreamServer& server,
                                                   std::int64_t now) const override;
  [[nodiscard]] Result<http::ClientRequest> list_request(const UpstreamServer& server,
                                                         const UpstreamListOrder& order,
                                                         std::int64_t now) const override;
  [[nodiscard]] Result<UpstreamObject> object_in(const UpstreamServer& server,
                                                 const http::ClientResponse& answer) const override;
  /// unsupported for names before `order.after`: the service does not sort names by their bytes, as
  /// with a hierarchical namespace, or does not know startFrom.
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
  [[nodiscard]] std::string_view metadata_prefix() const override { return "x-ms-meta-"; }
  /// True for identifiers in lower case: keys are C# identifiers, and come back in any case.
  [[nodiscard]] bool keeps_key(std::string_view key) const override;
  [[nodiscard]] UpstreamChange put_whole(const http::Fields& fields,
                                         const std::string& md5) const override;
  [[nodiscard]] std::optional<UpstreamChange> begin_upload(
      const http::Fields& fields) const override;
  [[nodiscard]] Result<std::string> upload_id_in(const UpstreamServer& server,
                                                 std::string_view body) const override;
  [[nodiscard]] UpstreamChange put_part(const std::string& id, std::uint64_t number,
                                        const std::string& md5) const override;
  /// The id of the block.
  [[nodiscard]] Result<std::string> part_tag_in(const http::ClientResponse& answer,
                                                const std::string& id,
                                                std::uint64_t number) const override;
  [[nodiscard]] UpstreamChange complete_upload(const std::string& id,
                                               const std::vector<std::string>& tags,
                                               const http::Fields& fields) const override;
  [[nodiscard]] Result<std::string> completed_tag_in(
      const UpstreamServer& server, const http::ClientResponse& answer) const override;
  /// "Set Blob Metadata". unsupported for another Content-Type or Content-Encoding.
  [[nodiscard]] Result<UpstreamChange> set_metadata(const UpstreamServer& server,
                                                    std::string_view object,
                                                    const UpstreamObject& now,
                                                    const http::Fields& fields) const override;
  [[nodiscard]] Result<std::string> changed_tag_in(
      const UpstreamServer& server, const http::ClientResponse& answer) const override;
  [[nodiscard]] std::optional<UpstreamChange> abort_upload(const std::string& id) const override;
  /// Reads it from Content-MD5.
  [[nodiscard]] std::string md5_in(const http::ClientResponse& answer) const override;

 protected:
  [[nodiscard]] Said said_in(const http::ClientResponse& answer) const override;
};

}  // namespace tarn::target
