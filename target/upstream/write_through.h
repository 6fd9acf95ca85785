#pragma once

#include "target/commit/incoming.h"
#include "target/node/upstream_writes.h"
#include "target/upstream/fill.h"
#include "target/upstream/upload.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

/// Writes through to upstream. One writer a name at a time; the order of a PUT:
///
///   1. the body is in a work file, compared with the client's checksums;
///   2. upstream is asked what it has, where there are conditions or a stored version; the parts of
///      a large object are sent, as they come: nothing has changed yet;
///   3. a mark replaces the stored version, durably (write_mark.h);
///   4. upstream accepts the new version;
///   5. fills that are under way get no further readers: they may have the old version;
///   6. under the name's lock, if the mark is still there: commit as any PUT (decision 002).
///
/// A DELETE has steps 2 to 5, and a tombstone without mark at the end. A PATCH has the bytes of 1
/// from the stored version, if that is what upstream has; without them it ends as a DELETE. A crash
/// after 3 leaves the mark: the name is read from upstream, and nothing of it is kept while the
/// mark is open. A write that finds an open mark of another one is not kept either: upstream may
/// make the two in any order. Thread-safe.
class WriteThrough final : public UpstreamWrites {
 public:
  /// All must outlive it. `board`: the fills of this target.
  WriteThrough(TargetNode& node, Upstream& upstream, FillBoard& board)
      : node_(node), upstream_(upstream), board_(board), open_uploads_(node, upstream) {}

  /// The uploads of large bodies.
  [[nodiscard]] OpenUploads& open_uploads() { return open_uploads_; }

  Task<Status> check(const ObjectRequest& wanted, const http::RequestHead& head) override;
  Task<Status> check_append(const ObjectRequest& wanted) override;
  Task<Result<std::shared_ptr<EarlyUpload>>> begin(const ObjectRequest& wanted, WorkFile& file,
                                                   std::uint64_t size,
                                                   const api::CustomMetadata& custom) override;
  Task<Result<io::ObjectRecord>> put(const ObjectRequest& wanted, const OwnedNames::Write& write,
                                     NewBytes bytes, api::CustomMetadata custom,
                                     const http::RequestHead* head,
                                     std::shared_ptr<EarlyUpload> early) override;
  Task<Status> patch(const ObjectRequest& wanted, const OwnedNames::Write& write,
                     const MetadataChange& change, const http::RequestHead& head) override;
  Task<Result<std::uint64_t>> remove(const ObjectRequest& wanted, const OwnedNames::Write& write,
                                     const http::RequestHead* head) override;

 private:
  struct Mark {
    Generation generation;
    bool is_alone = true;  ///< no other write of the name can be under way upstream
  };
  /// Answer of upstream about a name.
  struct Asked {
    std::optional<UpstreamObject> object;
    bool is_absent = false;  ///< surely; neither: upstream does not let us see it
  };
  Task<Result<std::shared_ptr<Upload>>> new_upload(const ObjectRequest& wanted, WorkFile& file,
                                                   std::uint64_t size,
                                                   const api::CustomMetadata& custom);
  Task<Result<std::shared_ptr<Upload>>> upload_of(const ObjectRequest& wanted,
                                                  const NewBytes& bytes,
                                                  const api::CustomMetadata& custom);
  Task<Result<Asked>> ask(const ObjectRequest& wanted, const http::RequestHead* head);
  Task<bool> may_be_stored(const ObjectRequest& wanted);
  Task<Result<Mark>> set_mark(const ObjectRequest& wanted);
  Task<Status> clear_mark(const ObjectRequest& wanted, Mark mark);
  Task<void> clear_or_log(const ObjectRequest& wanted, Mark mark, std::string_view write);
  Task<Status> keep(const ObjectRequest& wanted, const OwnedNames::Write& write, NewBytes bytes,
                    api::CustomMetadata custom, Mark mark);
  Task<void> keep_or_log(const ObjectRequest& wanted, const OwnedNames::Write& write,
                         NewBytes bytes, api::CustomMetadata custom, Mark mark);
  /// A copy of what the cluster has of an object.
  struct StoredCopy {
    std::unique_ptr<WorkFile> file;  ///< null: it does not have this version
    Digests digests;
    BodyChecksums sums;
  };
  Task<StoredCopy> copy_stored(const ObjectRequest& wanted, const UpstreamObject& object);
  Task<void> keep_copy(const ObjectRequest& wanted, const OwnedNames::Write& write,
                       StoredCopy stored, api::CustomMetadata custom, std::string etag, Mark mark);
  /// Clears the mark of a write that surely was not made: finish() or its caller.
  enum class Clears : std::uint8_t { here, caller };
  Task<Status> finish(const ObjectRequest& wanted, const OwnedNames::Write& write, Mark mark,
                      Status sent, bool may_have_happened, Clears clears = Clears::here);
  Task<Result<std::string>> send(const ObjectRequest& wanted, const OwnedNames::Write& write,
                                 Upload& upload, const http::RequestHead* head, Mark& mark);

  TargetNode& node_;
  Upstream& upstream_;
  FillBoard& board_;
  OpenUploads open_uploads_;
  NameLocks turns_;  // of writers, for as long as upstream takes
};

}  // namespace tarn::target
