#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "common/base/buffer_pool.h"
#include "common/base/event.h"
#include "target/commit/body_checksums.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

/// Some bytes of an object, all of one version, in order. A connection that breaks is continued by
/// Range and If-Match. Used by one coroutine.
class RangeReader {
 public:
  /// Bytes from `begin` to `end` of the version `object`. `download`: an answer that begins there
  /// and may end earlier, or nothing. All references must outlive it.
  RangeReader(Upstream& upstream, const UpstreamName& name, const UpstreamObject& object,
              std::uint64_t begin, std::uint64_t end, std::optional<Upstream::Download> download);

  /// Up to `into.size()` bytes; 0 at the end. bad_upstream when upstream has another version by
  /// now; unavailable, or timeout, when it breaks off again and again.
  Task<Result<std::size_t>> read_some(std::span<std::byte> into);

 private:
  Task<Status> ask(const Error* why);

  Upstream& upstream_;
  const UpstreamName& name_;
  const UpstreamObject& object_;
  std::uint64_t at_;
  const std::uint64_t end_;
  std::optional<Upstream::Download> download_;
  int resumes_ = 0;  // without a byte between them
};

/// The body of one object, all of one version. A large one comes in parts, each by a request of its
/// own, a few at a time: one connection to a distant server carries far less than a drive or a
/// reader takes. Parts wait in memory until it is their turn. On one loop.
class UpstreamBody {
 public:
  static constexpr std::uint64_t kPartBytes = 8U << 20U;
  static constexpr std::uint64_t kPartsAtOnce = 4;

  /// Asks for the object: for its first part, since its size is not known. `upstream` must outlive
  /// it. Errors as Upstream::get().
  static Task<Result<std::unique_ptr<UpstreamBody>>> open(Upstream& upstream, UpstreamName name);
  /// The body of `first`, the answer to a GET of `name` that describes `object`. A 200 comes over
  /// its one connection. Of an object without a size it must be chunked.
  UpstreamBody(Upstream& upstream, UpstreamName name, UpstreamObject object,
               Upstream::Download first);

  /// The object, with the checksums of the whole, as far as upstream sends any.
  [[nodiscard]] const UpstreamObject& object() const { return object_; }
  /// True for a body whose length was not sent and whose end is certain all the same.
  [[nodiscard]] bool is_chunked() const { return chunked_.has_value(); }
  /// True if fetch_parts() must run beside read_some().
  [[nodiscard]] bool has_parts() const { return parts_ > 0; }
  /// Up to `into.size()` bytes, in order; 0 at the end of the object. Errors as RangeReader.
  Task<Result<std::size_t>> read_some(std::span<std::byte> into);
  /// Fetches the parts ahead of read_some(), until it is cancelled.
  Task<void> fetch_parts();

 private:
  struct Part {
    std::vector<PooledBuffer> buffers;
    std::uint64_t have = 0;
    std::uint64_t taken = 0;
    std::optional<Error> error;
  };
  [[nodiscard]] std::uint64_t part_end(std::uint64_t number) const;
  Task<void> fetch_lane(std::uint64_t first);
  Task<Status> fetch_part(std::uint64_t number, Part& part);

  Upstream& upstream_;
  const UpstreamName name_;
  const UpstreamObject object_;
  std::uint64_t parts_ = 0;  // 0: it comes by one RangeReader
  std::optional<Upstream::Download> first_;
  std::optional<RangeReader> whole_;
  std::optional<Upstream::Download> chunked_;  // of a body whose length was not sent
  std::uint64_t reading_ = 0;                  // the part that is read now
  std::map<std::uint64_t, Part> fetched_;
  Event progress_;
};

/// Metadata that a record keeps of what upstream reported of an object. `sums`: of its bytes,
/// checked.
[[nodiscard]] api::CustomMetadata kept_metadata(const UpstreamObject& object,
                                                const BodyChecksums& sums);

}  // namespace tarn::target
