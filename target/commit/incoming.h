#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stop_token>

#include "common/api/custom_metadata.h"
#include "common/http/exchange.h"
#include "target/commit/body_checksums.h"
#include "target/drive/digests.h"
#include "target/node/node.h"
#include "target/replica/newest.h"

namespace tarn::target {

class CodedWrite;

// Common part of PUT, append, copy and rename: bytes come in, a new version is committed.

/// Checks that the body has the length that the redirect announced: clients lose bodies in
/// redirects.
Status check_announced_length(const http::RequestHead& head, const security::RedirectClaim& claim);

/// Streams the body into `file` after what is there (`digests.size()`). While the drive writes one
/// chunk, the next is received. `announced` and, unless null, `part` see the bytes of this body
/// only. `written`, unless null, hears how many bytes are in the file.
Task<Status> receive_body(http::Exchange& exchange, WorkFile& file, Digests& digests,
                          BodyChecksums& announced, Xxh64Stream* part = nullptr,
                          const std::function<void(std::uint64_t)>& written = nullptr);

/// Appends an object's verified bytes to `file`: those of a coded one are decoded. `from`, what
/// `name` has here, must be held by a shared_ptr. cancelled when `stop` is requested. `also`,
/// unless null, sees the bytes, too.
Task<Status> copy_bytes(TargetNode& node, const ObjectName& name, OpenObject& from, WorkFile& file,
                        Digests& digests, std::stop_token stop = {}, BodyChecksums* also = nullptr);

/// Bytes that are to become a new version.
struct NewBytes {
  WorkFile& file;  ///< complete; of a coded version an empty one
  std::uint64_t size = 0;
  std::uint64_t xxh64 = 0;
  std::vector<std::uint32_t> blocks = {};  ///< CRC32C of every MiB of the file
  CodedWrite* coded = nullptr;             ///< slices that have ended and are not sealed, or null
  const io::Coding* kept = nullptr;  ///< slices that the newest version names already, or null
  /// Null, or the version that these bytes are: if it is still the newest (else conflict), the new
  /// one has its number, time and metadata.
  const io::ObjectRecord* same_as = nullptr;
  /// Time when the version was made; nothing: now.
  std::optional<std::int64_t> modified_ns = std::nullopt;
};
[[nodiscard]] NewBytes new_bytes(WorkFile& file, const Digests& digests);

/// The slices of a version that came as a file.
struct Sliced {
  std::shared_ptr<CodedWrite> coded;  ///< null: it is kept as it came
  std::unique_ptr<WorkFile> empty;    ///< the file of its record
  /// Returns the slices as the bytes to commit; `whole` when there are none.
  [[nodiscard]] NewBytes instead_of(NewBytes whole) const;
};
/// Cuts what is in a work file into slices, if the bucket of `wanted` is to have such an object in
/// slices. Not under the name's lock. Errors of encode_file().
Task<Result<Sliced>> slice_file(TargetNode& node, const ObjectRequest& wanted,
                                const NewBytes& bytes);

/// Commits a complete file as the new version of `wanted`, durably, under the name's lock (which it
/// takes). `conditions`: the request whose If-Match and If-None-Match must hold, or null.
/// Errors: precondition_failed, bucket_not_found, unavailable (no lease), what Drive::publish has.
Task<Result<io::ObjectRecord>> commit_file(TargetNode& node, const ObjectRequest& wanted,
                                           const OwnedNames::Write& write, NewBytes bytes,
                                           api::CustomMetadata custom,
                                           const http::RequestHead* conditions);
/// The same when the caller holds the name's lock.
Task<Result<io::ObjectRecord>> commit_locked(TargetNode& node, const ObjectRequest& wanted,
                                             const OwnedNames::Write& write, NewBytes bytes,
                                             api::CustomMetadata custom,
                                             const http::RequestHead* conditions);
/// True if a write depends on the version that is there: `head` has If-Match, If-None-Match or
/// If-Unmodified-Since. It may be null.
[[nodiscard]] bool has_write_conditions(const http::RequestHead* head);
/// If-Match and If-None-Match against the newest version (from find_newest).
Status check_write_allowed(const http::RequestHead& head, const Newest& newest,
                           const ObjectRequest& wanted);
/// The same before a body travels, when there are such conditions; commit_file() looks again.
Task<Status> check_before_body(TargetNode& node, const http::RequestHead& head,
                               const ObjectRequest& wanted);

/// The last look before an acknowledgement: a write whose lease ended on the way has an unknown
/// outcome.
Status check_lease_before_reply(const OwnedNames::Write& write);
/// The pairs of all lines of `Ais-Custom-Md`.
[[nodiscard]] Result<api::CustomMetadata> custom_metadata_of(const http::RequestHead& head);
/// 200 with the headers that AIStore answers a PUT with, and an ETag.
[[nodiscard]] http::Response stored_response(const io::ObjectRecord& record);

}  // namespace tarn::target
