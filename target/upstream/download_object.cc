#include "target/upstream/download_object.h"

#include <array>
#include <utility>
#include <variant>

#include "common/base/backoff.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/coded/put_tombstone.h"
#include "target/commit/incoming.h"
#include "target/drive/block_writer.h"
#include "target/job/copy_named.h"
#include "target/node/bodies.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/upstream/body.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using Outcome = DownloadEnd::Outcome;

constexpr int kDownloadTriesMax = 5;
constexpr std::chrono::milliseconds kDownloadPauseFirst{500};  // doubled with each try
constexpr auto kDownloadLookEvery = 100ms;
constexpr std::size_t kLinkBytesKept = 1024;

/// True if the same request may succeed a moment later.
bool passes(Errc code) {
  return code == Errc::unavailable || code == Errc::timeout || code == Errc::disconnected ||
         code == Errc::io;
}

/// The version of an object at its server, as the record notes it: the entity tag, or the time.
std::string version_of(const UpstreamObject& object) {
  if (!object.etag.empty()) return object.etag;
  return object.modified ? std::to_string(*object.modified) : "";
}

std::string_view noted(const io::ObjectRecord& record, std::string_view wanted) {
  for (const auto& [key, value] : record.custom)
    if (key == wanted) return value;
  return {};
}

api::CustomMetadata metadata_of_link(const UpstreamObject& object, const std::string& link,
                                     const BodyChecksums& sums) {
  api::CustomMetadata out = kept_metadata(object, sums);
  out.emplace_back(api::kLinkKey, link);
  out.emplace_back(api::kLinkVersionKey, version_of(object));
  return out;
}

/// Bytes to read at a time, at most `most`, so that no wait is much longer than a quarter of a
/// second.
std::size_t chunk_at(std::uint64_t rate, std::size_t most) {
  if (rate == RateLimiter::kUnlimited) return most;
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(rate / 4, std::min<std::uint64_t>(most, 256), most));
}

/// Counts `bytes` that came, and waits until more may. cancelled when asked to stop.
Task<Status> keep_rate(const TargetNode& node, const DownloadRules& rules, std::uint64_t bytes) {
  rules.rate.spend(bytes);
  while (true) {
    const auto wait = rules.rate.wait(node.clock.boot_time());
    if (wait == std::chrono::nanoseconds::zero()) co_return Status();
    co_await pause(std::min<std::chrono::nanoseconds>(wait, kDownloadLookEvery));
    const auto state = co_await asio::this_coro::cancellation_state;
    if (rules.stop.stop_requested() || state.cancelled() != asio::cancellation_type::none)
      co_return fail(Errc::cancelled, "told to stop");
  }
}

/// A refusal or failure of the server, apart from those of this node.
struct Refused {
  Error error;
  bool may_pass = false;
};

/// One object on its way, over all its tries.
class LinkDownload {
 public:
  LinkDownload(TargetNode& node, Upstream& upstream, DownloadCounts& counts, BucketId bucket,
               const api::DownloadItem& item, const DownloadRules& rules,
               DownloadTransfer& transfer)
      : node_(node),
        upstream_(upstream),
        counts_(counts),
        bucket_(bucket),
        item_(item),
        rules_(rules),
        transfer_(transfer) {
    if (rules.terms.timeout.count() > 0) deadline_ = steady_clock::now() + rules.terms.timeout;
  }

  Task<Result<DownloadEnd>> run();

 private:
  /// An open body; nothing when the object is here in the version that the server has.
  using Opened = std::unique_ptr<UpstreamBody>;
  Task<Result<DownloadEnd>> attempt();
  Task<Result<Opened>> open(const io::ObjectRecord* known);
  Task<Result<Opened>> open_changed(const io::ObjectRecord& record);
  Task<Result<std::size_t>> read(UpstreamBody& body, std::span<std::byte> into);
  Task<Result<std::size_t>> fill(UpstreamBody& body, std::span<std::byte> into,
                                 BodyChecksums& sums);
  Task<Status> receive(UpstreamBody& body, WorkFile& file, Digests& digests, BodyChecksums& sums);
  Task<Status> write(UpstreamBody& body, WorkFile& file, Digests& digests, BodyChecksums& sums);
  Task<Result<DownloadEnd>> store(const ObjectRequest& wanted, UpstreamBody& body);
  Task<Status> commit(const ObjectRequest& wanted, NewBytes bytes, api::CustomMetadata custom);
  [[nodiscard]] bool is_here(const UpstreamObject& object, const io::ObjectRecord& record) const;
  [[nodiscard]] Status check_going_on() const;
  [[nodiscard]] Task<Error> wait_for_end() const;
  template <class R>
  Task<R> unless_ended(Task<R> work) const;
  [[nodiscard]] Task<Status> pause(std::chrono::milliseconds most) const;

  TargetNode& node_;
  Upstream& upstream_;
  DownloadCounts& counts_;
  const BucketId bucket_;
  const api::DownloadItem& item_;
  const DownloadRules& rules_;
  DownloadTransfer& transfer_;
  UpstreamName source_;
  std::string shown_;  // the link as it is kept
  std::optional<steady_clock::time_point> deadline_;
  std::optional<Refused> refused_;  // by the server, in the try under way
};

Status LinkDownload::check_going_on() const {
  if (rules_.stop.stop_requested()) return fail(Errc::cancelled, "told to stop");
  if (deadline_ && steady_clock::now() >= *deadline_)
    return fail(Errc::timeout, "it took longer than the timeout of {} ms",
                rules_.terms.timeout.count());
  return {};
}

/// Waits until the download is asked to stop, or its time is over.
Task<Error> LinkDownload::wait_for_end() const {
  co_await asio::this_coro::throw_if_cancelled(false);
  while (true) {
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none)
      co_return Error{Errc::cancelled, "this target is stopping"};
    if (const Status going = check_going_on(); !going) co_return going.error();
    co_await tarn::pause(kDownloadLookEvery);
  }
}

/// The result of `work`, or, when the download ends first, the reason for that.
template <class R>
Task<R> LinkDownload::unless_ended(Task<R> work) const {
  auto first = co_await first_of(std::move(work), wait_for_end());
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return fail(std::get<1>(std::move(first)));
}

Task<Status> LinkDownload::pause(std::chrono::milliseconds most) const {
  const auto until = steady_clock::now() + with_jitter(most);
  while (steady_clock::now() < until) {
    CO_TRY_OK(check_going_on());
    co_await tarn::pause(kDownloadLookEvery);
  }
  co_return Status();
}

Task<Result<DownloadEnd>> LinkDownload::run() {
  auto source = upstream_name_of_link(item_.link, rules_.terms);
  if (!source) co_return DownloadEnd{Outcome::failed, 0, source.error().message};
  source_ = std::move(*source);
  shown_ = api::parse_link(item_.link)->display().substr(0, kLinkBytesKept);
  for (int tries = 1;; ++tries) {
    transfer_ = {};
    refused_.reset();
    auto ended = co_await attempt();
    if (ended) co_return ended;
    const Errc code = ended.error().code;
    if (rules_.stop.stop_requested() || code == Errc::cancelled)
      co_return fail(Errc::cancelled, "told to stop");
    if (code == Errc::bucket_not_found && !refused_) co_return ended;
    if (deadline_ && steady_clock::now() >= *deadline_)
      co_return DownloadEnd{Outcome::failed, 0, check_going_on().error().message};
    if (!refused_) {
      const auto outcome = passes(code) ? Outcome::later : Outcome::failed;
      co_return DownloadEnd{outcome, 0, ended.error().message};
    }
    if (!refused_->may_pass || tries == kDownloadTriesMax)
      co_return DownloadEnd{Outcome::failed, 0, ended.error().message};
    ++counts_.again;
    obs::log("target").info("download tried again object={} link={} try={} err={}", item_.name,
                            shown_, tries, ended.error().message);
    const Status waited = co_await pause(kDownloadPauseFirst * (1 << tries));
    if (!waited && waited.error().code == Errc::cancelled) co_return fail(waited.error());
    if (!waited) co_return DownloadEnd{Outcome::failed, 0, waited.error().message};
  }
}

Task<Result<DownloadEnd>> LinkDownload::attempt() {
  CO_TRY_OK(check_memory());
  CO_TRY(const ObjectRequest wanted, co_await find_own(node_, bucket_, item_.name));
  // A version that cannot be looked up now is overwritten, as by a PUT.
  const auto newest = co_await find_complete(node_, wanted);
  if (!newest && !passes(newest.error().code)) co_return fail(newest.error());
  const bool is_known = newest && newest->exists();
  auto opened = co_await unless_ended(open(is_known ? &*newest->record : nullptr));
  if (!opened) {
    refused_ = Refused{opened.error(), passes(opened.error().code)};
    co_return fail(opened.error());
  }
  if (!*opened) co_return DownloadEnd{Outcome::skipped, 0, ""};
  UpstreamBody& body = **opened;
  const UpstreamObject& object = body.object();
  transfer_.total = object.size.value_or(0);
  co_return co_await store(wanted, body);
}

bool LinkDownload::is_here(const UpstreamObject& object, const io::ObjectRecord& record) const {
  const std::string version = version_of(object);
  if (version.empty() || noted(record, api::kLinkKey) != shown_) return false;
  if (object.size && *object.size != record.size) return false;
  return noted(record, api::kLinkVersionKey) == version;
}

/// Asks for the object. `known`: what is here of it, or null.
Task<Result<LinkDownload::Opened>> LinkDownload::open(const io::ObjectRecord* known) {
  if (known != nullptr) co_return co_await open_changed(*known);
  if (rules_.terms.connections == 0 && rules_.rate.get() == RateLimiter::kUnlimited)
    co_return co_await UpstreamBody::open(upstream_, source_);
  CO_TRY(auto download, co_await upstream_.get(source_));
  UpstreamObject object = download.object;
  co_return std::make_unique<UpstreamBody>(upstream_, source_, std::move(object),
                                           std::move(download));
}

/// Asks for an object that is here, unless the server has the same version.
Task<Result<LinkDownload::Opened>> LinkDownload::open_changed(const io::ObjectRecord& record) {
  http::Fields conditions;
  if (source_.link.empty()) {
    CO_TRY(const UpstreamObject object, co_await upstream_.head(source_));
    if (is_here(object, record)) co_return Opened();
  } else if (const auto tag = noted(record, api::kLinkVersionKey);
             tag.ends_with('"') && noted(record, api::kLinkKey) == shown_) {
    conditions.push_back({"If-None-Match", std::string(tag)});
  }
  CO_TRY(auto download, co_await upstream_.get(source_, std::move(conditions)));
  if (download.status == 304 || is_here(download.object, record)) co_return Opened();
  UpstreamObject object = download.object;
  co_return std::make_unique<UpstreamBody>(upstream_, source_, std::move(object),
                                           std::move(download));
}

/// Bytes of the body, not faster than the limit allows.
Task<Result<std::size_t>> LinkDownload::read(UpstreamBody& body, std::span<std::byte> into) {
  auto got = co_await body.read_some(into.first(chunk_at(rules_.rate.get(), into.size())));
  if (!got) {
    refused_ = Refused{got.error(), got.error().code != Errc::cancelled};
    co_return got;
  }
  transfer_.bytes += *got;
  counts_.bytes += *got;
  CO_TRY_OK(co_await keep_rate(node_, rules_, *got));
  co_return got;
}

/// Fills `into`, or less at the end of the body.
Task<Result<std::size_t>> LinkDownload::fill(UpstreamBody& body, std::span<std::byte> into,
                                             BodyChecksums& sums) {
  co_await asio::this_coro::throw_if_cancelled(false);
  std::size_t have = 0;
  while (have < into.size()) {
    CO_TRY(const std::size_t got, co_await read(body, into.subspan(have)));
    if (got == 0) break;
    sums.update(into.subspan(have, got));
    have += got;
  }
  co_return have;
}

Task<Status> LinkDownload::write(UpstreamBody& body, WorkFile& file, Digests& digests,
                                 BodyChecksums& sums) {
  // No drive may be writing from a buffer that goes.
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto next = [&](std::span<std::byte> into) { return fill(body, into, sums); };
  co_return co_await write_chunks(file, digests, next);
}

Task<Status> LinkDownload::receive(UpstreamBody& body, WorkFile& file, Digests& digests,
                                   BodyChecksums& sums) {
  if (!body.has_parts()) co_return co_await write(body, file, digests, sums);
  auto ended = co_await first_of(write(body, file, digests, sums), body.fetch_parts());
  if (ended.index() == 0) co_return std::get<0>(std::move(ended));
  co_return fail(Errc::cancelled, "this target is stopping");
}

Task<Result<DownloadEnd>> LinkDownload::store(const ObjectRequest& wanted, UpstreamBody& body) {
  const UpstreamObject& object = body.object();
  http::RequestHead said;
  said.fields = object.checksums;
  auto sums = BodyChecksums::from(said);
  if (!sums) {
    refused_ = Refused{sums.error(), false};
    co_return fail(Errc::bad_upstream, "{}: {}", shown_, sums.error().message);
  }
  sums->keep(api::checksum_type_of(wanted.bucket.props));
  if (!object.size && !body.is_chunked()) {
    refused_ = Refused{{}, false};
    co_return fail(Errc::bad_upstream,
                   "{}: the server does not say how long it is (Content-Length), so a body that is "
                   "cut could not be told from a whole one",
                   shown_);
  }
  CO_TRY(const auto file, co_await create_here(node_, wanted.name, object.size));
  Digests digests;
  CO_TRY_OK(co_await unless_ended(receive(body, *file, digests, *sums)));
  if (object.size && digests.size() != *object.size) {
    refused_ = Refused{{}, true};
    co_return fail(Errc::bad_upstream, "{}: the server sent {} bytes and had announced {}", shown_,
                   digests.size(), *object.size);
  }
  if (const Status same = sums->check(digests.xxh64()); !same) {
    refused_ = Refused{same.error(), true};
    co_return fail(Errc::bad_upstream, "{}: what the server sent is not what it says it has: {}",
                   shown_, same.error().message);
  }
  CO_TRY_OK(
      co_await commit(wanted, new_bytes(*file, digests), metadata_of_link(object, shown_, *sums)));
  co_return DownloadEnd{Outcome::stored, digests.size(), ""};
}

Task<Status> LinkDownload::commit(const ObjectRequest& wanted, NewBytes bytes,
                                  api::CustomMetadata custom) {
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node_, wanted.name.uname));
  CO_FAIL_POINT("download.before_commit");
  CO_TRY(const io::ObjectRecord record,
         co_await commit_file(node_, wanted, write, std::move(bytes), std::move(custom), nullptr));
  CO_TRY_OK(check_lease_before_reply(write));
  co_await confirm_replicas(node_, wanted.name, record.generation);
  co_return Status();
}

/// An object of the bucket's own upstream, as a prefetch has it.
Task<Result<std::optional<std::uint64_t>>> fetch_own(TargetNode& node, BucketId bucket,
                                                     const std::string& name,
                                                     const DownloadRules& rules) {
  CO_TRY(const ObjectRequest wanted, co_await find_own(node, bucket, name));
  CO_TRY(const Newest newest, co_await find_complete(node, wanted));
  if (newest.exists()) {
    const auto current = co_await node.cold->confirm(wanted, *newest.record);
    if (!current && current.error().code == Errc::object_not_found) {
      if (rules.terms.synchronize)
        CO_TRY_OK(co_await delete_version(node, wanted, newest.record->generation));
      co_return std::nullopt;
    }
    if (!current) co_return fail(current.error());
    if (*current) co_return std::nullopt;
  }
  CO_TRY(const std::uint64_t bytes, co_await node.cold->fetch(wanted, rules.stop));
  co_return bytes;
}

Task<Result<DownloadEnd>> download_own(TargetNode& node, DownloadCounts& counts, BucketId bucket,
                                       const std::string& name, const DownloadRules& rules) {
  auto bytes = co_await fetch_own(node, bucket, name, rules);
  if (!bytes) {
    const Errc code = bytes.error().code;
    if (code == Errc::bucket_not_found || code == Errc::cancelled) co_return fail(bytes.error());
    co_return DownloadEnd{passes(code) ? Outcome::later : Outcome::failed, 0,
                          bytes.error().message};
  }
  if (!*bytes) co_return DownloadEnd{Outcome::skipped, 0, ""};
  counts.bytes += **bytes;
  static_cast<void>(co_await keep_rate(node, rules, **bytes));  // stored already
  co_return DownloadEnd{Outcome::stored, **bytes, ""};
}

}  // namespace

Result<UpstreamName> upstream_name_of_link(const std::string& text,
                                           const api::DownloadTerms& terms) {
  TRY(const api::Link link, api::parse_link(text));
  UpstreamName out;
  if (link.is_web()) {
    out.link = text;
    for (const auto& [name, value] : terms.headers) out.fields.push_back({name, value});
    return out;
  }
  TRY(out.bucket.provider, api::canonical_provider(link.scheme));
  out.bucket.name = link.server.substr(link.scheme.size() + 3);
  out.props.kind = *api::upstream_kind(out.bucket);
  out.object = link.path;
  return out;
}

Task<Result<DownloadEnd>> download_object(TargetNode& node, Upstream& upstream,
                                          DownloadCounts& counts, BucketId bucket,
                                          const api::DownloadItem& item, DownloadRules rules,
                                          DownloadTransfer& transfer) {
  Result<DownloadEnd> ended = DownloadEnd();
  if (item.link.empty()) {
    ended = co_await download_own(node, counts, bucket, item.name, rules);
  } else {
    LinkDownload download(node, upstream, counts, bucket, item, rules, transfer);
    ended = co_await download.run();
  }
  if (!ended) co_return ended;
  if (ended->outcome == Outcome::stored) ++counts.stored;
  if (ended->outcome == Outcome::skipped) ++counts.skipped;
  if (ended->outcome == Outcome::failed) {
    ++counts.failed;
    obs::log("target").info("download failed object={} err={}", item.name, ended->why);
  }
  co_return ended;
}

}  // namespace tarn::target
