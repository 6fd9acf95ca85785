#include "target/upstream/body.h"

#include <algorithm>
#include <cstring>

#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/memory_limit.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

constexpr int kResumesMax = 4;
/// Time that a part waits where its bucket has a rate limit: readers have begun.
constexpr std::chrono::hours kPartTurnMost{1};
constexpr auto kPartLookEvery = std::chrono::seconds(60);  // a ring comes earlier

bool is_cancelled(const asio::cancellation_state& state) {
  return state.cancelled() != asio::cancellation_type::none;
}

/// True if parts ahead of their turn may be held in memory: an eighth of it for all of them.
bool has_memory_for_parts() {
  static const std::uint64_t allowed = memory_limit() / 8;
  return PooledBuffer::bytes_in_use() + UpstreamBody::kPartsAtOnce * UpstreamBody::kPartBytes <=
         allowed;
}

/// True if parts of the version can be asked for one by one.
bool is_certain_version(const UpstreamObject& object) { return object.is_same_version(object); }

/// Returns the checksums of the whole object, whose first part `object` describes. S3 is asked by a
/// HEAD where the part's head has none.
Task<http::Fields> checksums_of_whole(Upstream& upstream, const UpstreamName& name,
                                      const UpstreamObject& object) {
  const api::UpstreamKind kind = name.props.kind;
  const bool says_more = kind == api::UpstreamKind::s3 || kind == api::UpstreamKind::gcs;
  if (!object.checksums.empty() || !says_more) co_return object.checksums;
  auto whole = co_await upstream.head(name);
  if (whole && whole->is_same_version(object)) co_return std::move(whole->checksums);
  co_return http::Fields();
}

}  // namespace

RangeReader::RangeReader(Upstream& upstream, const UpstreamName& name, const UpstreamObject& object,
                         std::uint64_t begin, std::uint64_t end,
                         std::optional<Upstream::Download> download)
    : upstream_(upstream),
      name_(name),
      object_(object),
      at_(begin),
      end_(end),
      download_(std::move(download)) {}

Task<Result<std::size_t>> RangeReader::read_some(std::span<std::byte> into) {
  into = into.first(std::min<std::uint64_t>(into.size(), end_ - at_));
  if (into.empty()) co_return 0;
  while (true) {
    if (!download_) CO_TRY_OK(co_await ask(nullptr));
    auto got = co_await download_->stream.read_some(into);
    if (got && *got > 0) {
      at_ += *got;
      resumes_ = 0;
      if (!download_->from_target) CO_TRY_OK(co_await upstream_.received(name_, *got));
      co_return got;
    }
    if (!SAFETY("safety.fill_length")) co_return 0;
    const Error why = got ? Error{Errc::disconnected, "the body ended too early"} : got.error();
    CO_TRY_OK(co_await ask(&why));
  }
}

/// Asks for what is missing. `why`: what has ended the answer before, or null.
Task<Status> RangeReader::ask(const Error* why) {
  if (why != nullptr) {
    if (resumes_++ == kResumesMax || object_.etag.empty() || why->code == Errc::cancelled)
      co_return fail(why->code == Errc::timeout ? why->code : Errc::unavailable,
                     "{}: the connection to upstream broke after {} of {} bytes: {}",
                     name_.display(), at_, *object_.size, why->message);
    obs::log("target").info("upstream body goes on object={} at={} err={}", name_.display(), at_,
                            why->message);
  }
  const std::string last = end_ == *object_.size ? "" : std::to_string(end_ - 1);
  http::Fields fields{{"Range", fmt::format("bytes={}-{}", at_, last)}};
  if (SAFETY("safety.fill_if_match")) fields.push_back({"If-Match", object_.etag});
  auto next = co_await upstream_.get(name_, std::move(fields), kPartTurnMost);
  if (!next) co_return fail(next.error());
  const bool fits = next->status == 206 && next->object.part_at == at_;
  const bool is_same = next->object.is_same_version(object_) || !SAFETY("safety.fill_if_match");
  if (!fits || !is_same)
    co_return fail(Errc::bad_upstream,
                   "{}: upstream has another version of the object now: nothing was stored",
                   name_.display());
  download_ = std::move(*next);
  co_return Status();
}

Task<Result<std::unique_ptr<UpstreamBody>>> UpstreamBody::open(Upstream& upstream,
                                                               UpstreamName name) {
  auto first = co_await upstream.get(name, {{"Range", fmt::format("bytes=0-{}", kPartBytes - 1)}});
  // An empty object has no first byte. Of a version that cannot be distinguished from another one
  // no second part can be asked for.
  const bool is_part = first && first->status == 206;
  const bool is_whole = is_part && *first->object.size <= kPartBytes;
  const bool is_empty = !first && first.error().code == Errc::range_not_satisfiable;
  if (is_empty || (is_part && !is_whole && !is_certain_version(first->object)))
    first = co_await upstream.get(name);
  if (!first) co_return fail(first.error());
  UpstreamObject object = first->object;
  if (first->status == 206) {
    if (object.part_at != 0)
      co_return fail(Errc::bad_upstream, "{}: upstream sent another part than was asked for",
                     name.display());
    if (!is_whole) object.checksums = co_await checksums_of_whole(upstream, name, object);
    object.part_at.reset();
  }
  co_return std::make_unique<UpstreamBody>(upstream, std::move(name), std::move(object),
                                           std::move(*first));
}

UpstreamBody::UpstreamBody(Upstream& upstream, UpstreamName name, UpstreamObject object,
                           Upstream::Download first)
    : upstream_(upstream), name_(std::move(name)), object_(std::move(object)) {
  const std::uint64_t size = object_.size.value_or(0);
  if (!object_.size && first.chunked) {
    chunked_ = std::move(first);
  } else if (first.status == 206 && size > kPartBytes && has_memory_for_parts()) {
    parts_ = (size + kPartBytes - 1) / kPartBytes;
    first_ = std::move(first);
  } else {
    whole_.emplace(upstream_, name_, object_, 0, size, std::move(first));
  }
}

std::uint64_t UpstreamBody::part_end(std::uint64_t number) const {
  return std::min(*object_.size, (number + 1) * kPartBytes);
}

Task<Result<std::size_t>> UpstreamBody::read_some(std::span<std::byte> into) {
  if (whole_) co_return co_await whole_->read_some(into);
  if (chunked_) {
    auto got = co_await chunked_->stream.read_some(into);
    if (got) CO_TRY_OK(co_await upstream_.received(name_, *got));
    co_return got;
  }
  EventListener listener(progress_, co_await asio::this_coro::executor);
  while (reading_ < parts_) {
    Part& part = fetched_[reading_];
    if (part.taken < part.have) {
      const PooledBuffer& buffer = part.buffers[part.taken / PooledBuffer::kBlockBytes];
      const std::uint64_t inside = part.taken % PooledBuffer::kBlockBytes;
      const std::size_t length = std::min<std::uint64_t>(
          {into.size(), part.have - part.taken, PooledBuffer::kBlockBytes - inside});
      std::memcpy(into.data(), buffer.span().data() + inside, length);
      part.taken += length;
      if (part.taken == part_end(reading_) - reading_ * kPartBytes) {
        fetched_.erase(reading_++);
        progress_.ring();
      }
      co_return length;
    }
    if (part.error) co_return fail(*part.error);
    if (is_cancelled(co_await asio::this_coro::cancellation_state))
      co_return fail(Errc::cancelled, "this target is stopping; try again");
    co_await listener.wait_until(std::chrono::steady_clock::now() + kPartLookEvery);
  }
  co_return 0;
}

Task<void> UpstreamBody::fetch_parts() {
  co_await asio::this_coro::throw_if_cancelled(false);
  std::vector<Task<void>> lanes;
  const std::uint64_t count = std::min(parts_, kPartsAtOnce);
  lanes.reserve(count);
  for (std::uint64_t lane = 0; lane < count; ++lane) lanes.push_back(fetch_lane(lane));
  co_await gather(std::move(lanes));
  EventListener listener(progress_, co_await asio::this_coro::executor);
  while (!is_cancelled(co_await asio::this_coro::cancellation_state))
    co_await listener.wait_until(std::chrono::steady_clock::now() + kPartLookEvery);
}

/// Fetches every kPartsAtOnce-th part from `first` on, each when the reader is near it.
Task<void> UpstreamBody::fetch_lane(std::uint64_t first) {
  co_await asio::this_coro::throw_if_cancelled(false);
  EventListener listener(progress_, co_await asio::this_coro::executor);
  for (std::uint64_t number = first; number < parts_; number += kPartsAtOnce) {
    while (number >= reading_ + kPartsAtOnce) {
      if (is_cancelled(co_await asio::this_coro::cancellation_state)) co_return;
      co_await listener.wait_until(std::chrono::steady_clock::now() + kPartLookEvery);
    }
    Part& part = fetched_[number];
    const Status done = co_await fetch_part(number, part);
    if (done) continue;
    part.error = done.error();
    progress_.ring();
    co_return;
  }
}

Task<Status> UpstreamBody::fetch_part(std::uint64_t number, Part& part) {
  const std::uint64_t begin = number * kPartBytes;
  const std::uint64_t length = part_end(number) - begin;
  RangeReader reader(upstream_, name_, object_, begin, begin + length,
                     number == 0 ? std::exchange(first_, std::nullopt) : std::nullopt);
  while (part.have < length) {
    const std::uint64_t inside = part.have % PooledBuffer::kBlockBytes;
    if (inside == 0) part.buffers.emplace_back(PooledBuffer::kBlockBytes);
    CO_TRY(const std::size_t got,
           co_await reader.read_some(part.buffers.back().span().subspan(inside)));
    if (got == 0) co_return fail(Errc::bad_upstream, "{}: a part is too short", name_.display());
    part.have += got;
    progress_.ring();
  }
  co_return Status();
}

api::CustomMetadata kept_metadata(const UpstreamObject& object, const BodyChecksums& sums) {
  api::CustomMetadata out;
  if (!object.content_type.empty() && object.content_type != http::kBytes)
    out.emplace_back("Content-Type", object.content_type);
  if (!object.content_encoding.empty())
    out.emplace_back("Content-Encoding", object.content_encoding);
  out.insert(out.end(), object.custom.begin(), object.custom.end());
  sums.note_kept(out);
  return out;
}

}  // namespace tarn::target
