#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/event.h"
#include "target/drive/followed_file.h"
#include "target/node/upstream_writes.h"
#include "target/upstream/open_uploads.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

/// One object on its way upstream, from a file that may still be written. Small objects go in one
/// request, larger ones in parts, several at a time. commit() alone changes the object upstream.
/// Every request carries the MD5 of its bytes, which the server compares. On one loop.
class Upload final : public EarlyUpload {
 public:
  /// The largest object that goes in one request, and bytes of a part of larger ones.
  static constexpr std::uint64_t kWholeBytes = 32U << 20U;
  static constexpr std::uint64_t kPartBytes = 16U << 20U;
  /// commit() surely has no effect upstream later than this after it was called.
  static constexpr std::chrono::seconds kPatience{300};

  /// Place where an upload in parts is noted while it is under way.
  struct NotedAt {
    OpenUploads& all;
    std::shared_ptr<Drive> drive;  ///< of its file
    BucketId bucket;
  };
  /// `fields`: Content-Type and Content-Encoding of the object. `upstream` and what `noted_at`
  /// names must outlive it.
  Upload(Upstream& upstream, UpstreamName name, NotedAt noted_at,
         std::shared_ptr<FollowedFile> file, std::uint64_t size, http::Fields fields);

  [[nodiscard]] static bool has_parts(std::uint64_t size) { return size > kWholeBytes; }
  /// Begins an upload in parts. Errors as Upstream::change(); so do the next ones.
  Task<Status> begin();
  void written(std::uint64_t bytes) override;
  void stop() override;
  /// Sends the parts, or hashes a small object.
  Task<Status> send() override;
  struct Committed {
    Result<std::string> etag;  ///< of the object upstream
    /// True if upstream may have the new version in spite of an error.
    bool may_have_happened = false;
  };
  /// Makes it the object.
  Task<Committed> commit();
  /// Removes the parts of an upload that is not to be committed, as far as upstream answers.
  Task<void> abandon() override;

 private:
  [[nodiscard]] bool has_parts() const { return has_parts(size_); }
  [[nodiscard]] std::uint64_t part_bytes() const;
  Task<Status> send_parts(std::uint64_t first, std::uint64_t step);
  Task<Status> wait_written(std::uint64_t end);
  Task<Status> send_part(std::uint64_t number);

  Upstream& upstream_;
  const UpstreamName name_;
  const NotedAt noted_at_;
  const std::shared_ptr<FollowedFile> file_;
  const std::uint64_t size_;
  const http::Fields fields_;
  std::string md5_;                            ///< of a small object, base64
  std::string id_;                             ///< of an upload in parts
  std::unique_ptr<OpenUploads::Entry> entry_;  ///< null: upstream has nothing to remove
  std::vector<std::string> tags_;              ///< of its parts
  std::uint64_t written_ = 0;
  bool has_stopped_ = false;  ///< the body does not come, or a part of it could not be sent
  Event progress_;
};

/// Removes the parts of an upload that is not to be committed. True also where upstream has none,
/// or forgets them by itself. False: they stay for now, and the log has the reason.
Task<bool> abort_upload(Upstream& upstream, UpstreamName name, std::string id);

}  // namespace tarn::target
