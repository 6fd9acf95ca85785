#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/cluster/state/state.h"
#include "common/http/client.h"
#include "target/drive/followed_file.h"
#include "target/upstream/confirmed_versions.h"
#include "target/upstream/dialect.h"
#include "target/upstream/rate_limits.h"
#include "target/upstream/server_gate.h"
#include "target/upstream/servers.h"

namespace tarn::target {

/// The object of a bucket, as upstream is asked for it.
struct UpstreamName {
  api::Bucket bucket;
  api::UpstreamProps props;
  std::string object;
  /// URL of a file on a web server, in place of all three; empty: the object.
  std::string link = {};
  /// Further fields of requests for the link. Servers that it redirects to do not get them.
  http::Fields fields = {};

  /// Text for messages: of a link without its query, which may have a signature in it.
  [[nodiscard]] std::string display() const {
    return link.empty() ? bucket.display() + "/" + object : link.substr(0, link.find('?'));
  }
};

/// True for an error of Upstream that the same request may not meet a moment later.
[[nodiscard]] constexpr bool may_pass(Errc code) {
  return code == Errc::unavailable || code == Errc::timeout;
}

/// Calls to upstream servers. A failure that may pass (429, 5xx, no connection) is tried four
/// times, with back-off and jitter; a server that goes on failing is left alone for a while
/// (ServerGate). No redirect is followed, so requests and credentials stay with the server that the
/// operator allowed; but for links, as far as each server on the way is allowed, too. Thread-safe;
/// every method runs on a loop.
///
/// Errors: object_not_found when upstream surely has no such object, bucket_not_found, forbidden,
/// precondition_failed, range_not_satisfiable; timeout for a server that was silent; unavailable
/// for what else may pass; bad_upstream for all else. Messages name the server and its answer.
class Upstream {
 public:
  /// `tls` as http::Client. `connections`: requests at a time to each server. `silence`: for which
  /// one may send nothing. `targets`: as RateLimits.
  Upstream(UpstreamServers servers, Clock& clock, std::shared_ptr<const http::TlsContext> tls,
           std::size_t connections, std::chrono::milliseconds silence,
           std::function<std::size_t()> targets);

  /// An object on its way here.
  struct Download {
    UpstreamObject object;
    unsigned status = 200;  ///< or 206; of a link also 304, which has no body
    http::ClientStream stream;
    bool chunked = false;  ///< its body has a certain end, also where its length was not sent
    std::optional<ServerGate::Pass> pass = {};  ///< held while the body is read
    bool from_target = false;  ///< another target sends what it gets (former_fill.h)
  };
  /// Sends a GET; the body is the caller's to read. `more`: fields such as Range and If-Match. Of a
  /// link up to kRedirectsMax redirects are followed: forbidden for a server that is not listed.
  /// `turn_most`: as long as that the request waits where its bucket has a rate limit.
  static constexpr int kRedirectsMax = 5;
  Task<Result<Download>> get(UpstreamName name, http::Fields more = {},
                             std::chrono::seconds turn_most = RateLimits::kTurnMost);
  /// Counts bytes of a body that have come, and waits while its bucket has had more than its rate
  /// limit allows. cancelled when the target stops.
  Task<Status> received(const UpstreamName& name, std::uint64_t bytes);
  Task<Result<UpstreamObject>> head(UpstreamName name);
  /// Bytes of a file that are sent as a body.
  struct FilePart {
    FollowedFile* file = nullptr;  ///< null: the body of the request itself
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  struct Changed {
    Result<http::ClientResponse> answer;  ///< with its body
    /// Without a usable answer: upstream may make the change all the same, or has made it.
    bool may_have_happened = false;
  };
  /// Sends a change of an object, whose body is `part`. After `patience` no further try is begun,
  /// and the one under way is broken off. `part.file` must outlive the call.
  Task<Changed> change(UpstreamName name, UpstreamChange change, FilePart part,
                       std::chrono::seconds patience);
  /// As UpstreamServers::server_of().
  [[nodiscard]] Result<UpstreamServer> server_of(const UpstreamName& name) const {
    return servers_.server_of(name.bucket, name.props);
  }
  [[nodiscard]] const UpstreamServers& servers() const { return servers_; }
  /// Fetches the credentials of the role that the target was started with, if any: one try.
  Task<void> fetch_credentials();
  /// Renews them until cancelled.
  Task<void> keep_credentials();
  [[nodiscard]] std::chrono::milliseconds silence() const { return call_limits_.stall; }
  /// `props` when the bucket is there and these credentials may read it. If they name no region,
  /// and S3 reports that the bucket is in another one, the result names that. invalid_argument
  /// where the server refuses the question itself.
  Task<Result<api::UpstreamProps>> check_bucket(api::Bucket bucket, api::UpstreamProps props);
  /// True if a web server answers for the URL of the bucket itself with anything but 404 and 410.
  Task<Result<bool>> has_folder(const UpstreamName& name);
  /// One page, which has an entry unless it is the last one.
  Task<Result<UpstreamPage>> list(api::Bucket bucket, api::UpstreamProps props,
                                  UpstreamListOrder order);

  /// Names of all buckets of the account that this target was started with, sorted.
  /// bucket_not_found where it was started with none.
  Task<Result<std::vector<std::string>>> list_buckets(api::UpstreamKind kind);

  // Counted since the start.
  struct Counts {
    std::atomic<std::uint64_t> requests{0};  ///< tries included
    std::atomic<std::uint64_t> bytes{0};     ///< of objects, received
    std::atomic<std::uint64_t> failed{0};    ///< requests without a usable answer
    std::atomic<std::uint64_t> fills{0};     ///< objects that were fetched whole and kept
    std::atomic<std::uint64_t> fills_failed{0};
    std::atomic<std::uint64_t> sent_bytes{0};  ///< of objects, tries included
    std::atomic<std::uint64_t> writes{0};      ///< PUTs and DELETEs that upstream accepted
    std::atomic<std::uint64_t> writes_failed{0};
  };
  [[nodiscard]] Counts& counts() { return counts_; }
  [[nodiscard]] const ServerGates& gates() const { return gates_; }
  [[nodiscard]] ConfirmedVersions& confirmed() { return confirmed_; }

 private:
  struct Answer {
    http::ClientResponse head;
    http::ClientStream stream;
    std::optional<ServerGate::Pass> pass;
  };
  Task<Result<Answer>> try_once(const UpstreamServer& server, http::ClientRequest request);
  Task<Result<http::ClientResponse>> try_change(const UpstreamServer& server,
                                                http::ClientRequest request, FilePart part,
                                                std::chrono::steady_clock::time_point until);
  /// Answers that send() returns: successes alone, or 3xx as well.
  enum class Accept : std::uint8_t { success, any_3xx };
  template <class Make>
  Task<Result<Answer>> send(const UpstreamServer& server, std::string about, Make make,
                            Accept accept = Accept::success,
                            std::chrono::seconds turn_most = RateLimits::kTurnMost);
  Task<Result<Download>> get_link(UpstreamName name, http::Fields more);
  Task<Status> ask_for_bucket(const UpstreamServer& server);
  Task<std::string> region_of_bucket(const UpstreamServer& server);
  [[nodiscard]] std::int64_t now() const;

  UpstreamServers servers_;
  Clock& clock_;
  http::Client client_;
  const http::CallLimits call_limits_;
  ServerGates gates_;
  RateLimits limits_;
  Counts counts_;
  ConfirmedVersions confirmed_;
};

}  // namespace tarn::target
