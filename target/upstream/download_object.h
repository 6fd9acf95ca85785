#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>

#include "common/api/download.h"
#include "target/node/move_limits.h"
#include "target/node/node.h"
#include "target/upstream/upstream.h"

namespace tarn::target {

/// The place that a link names. Of a cloud's the server and the credentials are those of its
/// buckets. invalid_argument as api::parse_link().
[[nodiscard]] Result<UpstreamName> upstream_name_of_link(const std::string& text,
                                                         const api::DownloadTerms& terms);

/// Counted since the start, of all downloads of this target. Thread-safe.
struct DownloadCounts {
  std::atomic<std::uint64_t> stored{0};
  std::atomic<std::uint64_t> bytes{0};  ///< received, tries included
  std::atomic<std::uint64_t> skipped{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> again{0};  ///< tries after the first one
};

/// Terms and limit that the objects of one batch share. The references must outlive them.
struct DownloadRules {
  const api::DownloadTerms& terms;
  RateLimiter& rate;  ///< bytes a second that may come
  std::stop_token stop;
};

/// One object of a download while it is under way.
struct DownloadTransfer {
  std::uint64_t bytes = 0;  ///< received by the try under way
  std::uint64_t total = 0;  ///< 0: not known
};

/// The end of one object of a download.
struct DownloadEnd {
  enum class Outcome : std::uint8_t {
    stored,
    skipped,  ///< the object is there in this version, or is gone upstream
    failed,   ///< the server does not have it, or goes on failing
    later     ///< this target cannot store it now, or does not own the name any longer
  };
  Outcome outcome = Outcome::stored;
  std::uint64_t bytes = 0;
  std::string why;  ///< of the last two
};

/// Fetches one object of a download and stores it as a PUT would. The order of a link:
///
///   1. the object that is there is looked up; the server is asked whether it has another version;
///   2. the body goes to a work file and is hashed; a connection that breaks is continued by Range
///      and If-Match;
///   3. length and checksums are compared;
///   4. only then the write begins: the name must still be ours. It is committed as a PUT is.
///
/// A crash before the end of 4 leaves a work file, which a start removes. Failures of the server
/// that may pass are tried again, with back-off. Without a link the object comes from upstream of
/// the bucket, as a prefetch has it.
///
/// Errors only for what ends the batch: cancelled by `rules.stop`, bucket_not_found.
Task<Result<DownloadEnd>> download_object(TargetNode& node, Upstream& upstream,
                                          DownloadCounts& counts, BucketId bucket,
                                          const api::DownloadItem& item, DownloadRules rules,
                                          DownloadTransfer& transfer);

}  // namespace tarn::target
