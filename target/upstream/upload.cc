#include "target/upstream/upload.h"

#include <algorithm>

#include <openssl/evp.h>

#include "common/base/buffer_pool.h"
#include "common/base/check.h"
#include "common/base/encoding.h"
#include "common/base/gather.h"
#include "common/base/random.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

constexpr std::uint64_t kPartsMax = 10'000;  // AWS's limit
constexpr std::uint64_t kPartsAtOnce = 4;
constexpr std::uint64_t kPartUnit = 1U << 20U;
constexpr std::chrono::seconds kPartPatience{600};
constexpr std::chrono::seconds kLookEvery{60};  // a ring comes earlier
constexpr std::size_t kOwnIdLength = 16;

/// MD5 of a part of a file, in base64.
Task<Result<std::string>> md5_of(FollowedFile& file, std::uint64_t offset, std::uint64_t length) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(),
                                                                       &EVP_MD_CTX_free);
  EVP_DigestInit_ex(digest.get(), EVP_md5(), nullptr);
  const PooledBuffer buffer(PooledBuffer::kSmallBytes);
  for (std::uint64_t at = 0; at < length;) {
    const auto chunk =
        buffer.span().first(std::min<std::uint64_t>(length - at, buffer.span().size()));
    CO_TRY_OK(co_await file.read(chunk, offset + at));
    EVP_DigestUpdate(digest.get(), chunk.data(), chunk.size());
    at += chunk.size();
  }
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  EVP_DigestFinal_ex(digest.get(), reinterpret_cast<unsigned char*>(out.data()), &size);
  out.resize(size);
  co_return base64(out);
}

/// bad_upstream when upstream reports that it has accepted other bytes than were sent.
Status check_same_bytes(const UpstreamName& name, const WritableDialect& dialect,
                        const http::ClientResponse& answer, const std::string& md5) {
  const std::string its = dialect.md5_in(answer);
  if (its.empty() || its == md5) return {};
  return fail(Errc::bad_upstream,
              "{}: upstream has other bytes than were sent: their MD5 is {} in base64",
              name.display(), its);
}

/// The entity tag of an object that was accepted whole.
Result<std::string> tag_in(const UpstreamName& name, const WritableDialect& dialect,
                           const http::ClientResponse& answer, const std::string& md5) {
  std::string tag(answer.field("ETag"));
  if (tag.empty())
    return fail(Errc::bad_upstream, "{}: upstream accepted a body and answered without ETag",
                name.display());
  TRY_OK(check_same_bytes(name, dialect, answer, md5));
  return tag;
}

Task<Status> try_abort(Upstream& upstream, const UpstreamName& name, const std::string& id) {
  CO_TRY(const UpstreamServer server, upstream.server_of(name));
  CO_TRY(const WritableDialect* dialect, writable_dialect_of(server));
  auto abort = dialect->abort_upload(id);
  if (!abort) co_return Status();
  const auto done = co_await upstream.change(name, std::move(*abort), {}, Upload::kPatience);
  co_return done.answer ? Status() : fail(done.answer.error());
}

}  // namespace

Upload::Upload(Upstream& upstream, UpstreamName name, NotedAt noted_at,
               std::shared_ptr<FollowedFile> file, std::uint64_t size, http::Fields fields)
    : upstream_(upstream),
      name_(std::move(name)),
      noted_at_(std::move(noted_at)),
      file_(std::move(file)),
      size_(size),
      fields_(std::move(fields)) {}

std::uint64_t Upload::part_bytes() const {
  const std::uint64_t least = (size_ + kPartsMax - 1) / kPartsMax;
  return std::max(kPartBytes, (least + kPartUnit - 1) / kPartUnit * kPartUnit);
}

void Upload::written(std::uint64_t bytes) {
  written_ = bytes;
  progress_.ring();
}

void Upload::stop() {
  has_stopped_ = true;
  progress_.ring();
}

Task<Status> Upload::begin() {
  if (!has_parts()) co_return Status();
  CO_TRY(const UpstreamServer server, upstream_.server_of(name_));
  CO_TRY(const WritableDialect* dialect, writable_dialect_of(server));
  auto begin = dialect->begin_upload(fields_);
  if (begin) {
    const auto begun = co_await upstream_.change(name_, std::move(*begin), {}, kPartPatience);
    if (!begun.answer) co_return fail(begun.answer.error());
    CO_TRY(id_, dialect->upload_id_in(server, begun.answer->body));
    auto entry =
        co_await noted_at_.all.begin(noted_at_.drive, {noted_at_.bucket, name_.object, id_});
    if (!entry) {
      co_await abandon();
      co_return fail(entry.error());
    }
    entry_ = std::move(*entry);
  } else {
    id_ = random_id(kOwnIdLength);
  }
  tags_.resize((size_ + part_bytes() - 1) / part_bytes());
  co_return Status();
}

Task<Status> Upload::send() {
  if (!has_parts()) {
    CO_TRY_OK(co_await wait_written(size_));
    CO_TRY(md5_, co_await md5_of(*file_, 0, size_));
    co_return Status();
  }
  std::vector<Task<Status>> lanes;
  for (std::uint64_t lane = 0; lane < std::min<std::uint64_t>(kPartsAtOnce, tags_.size()); ++lane)
    lanes.push_back(send_parts(lane, kPartsAtOnce));
  Status first;
  for (const Status& lane : co_await gather(std::move(lanes)))
    // The lane that failed has the reason why the other lanes have ended.
    if (!lane && (first || first.error().code == Errc::cancelled)) first = lane;
  co_return first;
}

Task<Status> Upload::send_parts(std::uint64_t first, std::uint64_t step) {
  for (std::uint64_t number = first; number < tags_.size(); number += step) {
    const Status sent = co_await send_part(number);
    if (sent) continue;
    stop();
    co_return sent;
  }
  co_return Status();
}

Task<Status> Upload::wait_written(std::uint64_t end) {
  EventListener listener(progress_, co_await asio::this_coro::executor);
  while (written_ < end && !has_stopped_)
    co_await listener.wait_until(std::chrono::steady_clock::now() + kLookEvery);
  if (!has_stopped_) co_return Status();
  co_return fail(Errc::cancelled, "{}: its upload has ended", name_.display());
}

Task<Status> Upload::send_part(std::uint64_t number) {
  const std::uint64_t offset = number * part_bytes();
  TARN_CHECK(number < tags_.size() && offset < size_);
  const std::uint64_t length = std::min(part_bytes(), size_ - offset);
  CO_TRY_OK(co_await wait_written(offset + length));
  CO_TRY(const std::string md5, co_await md5_of(*file_, offset, length));
  CO_TRY(const UpstreamServer server, upstream_.server_of(name_));
  CO_TRY(const WritableDialect* dialect, writable_dialect_of(server));
  const auto sent = co_await upstream_.change(name_, dialect->put_part(id_, number + 1, md5),
                                              {file_.get(), offset, length}, kPartPatience);
  if (!sent.answer) co_return fail(sent.answer.error());
  CO_TRY_OK(check_same_bytes(name_, *dialect, *sent.answer, md5));
  CO_TRY(tags_[number], dialect->part_tag_in(*sent.answer, id_, number + 1));
  co_return Status();
}

Task<Upload::Committed> Upload::commit() {
  const auto server = upstream_.server_of(name_);
  if (!server) co_return Committed{fail(server.error()), false};
  const auto writable = writable_dialect_of(*server);
  if (!writable) co_return Committed{fail(writable.error()), false};
  const WritableDialect& dialect = **writable;
  UpstreamChange change;
  Upstream::FilePart part;
  // The object is made of the parts that are named, and of no other ones.
  TARN_CHECK(!has_parts() || tags_.size() == (size_ + part_bytes() - 1) / part_bytes());
  if (has_parts()) {
    change = dialect.complete_upload(id_, tags_, fields_);
  } else {
    change = dialect.put_whole(fields_, md5_);
    part = {file_.get(), 0, size_};
  }
  const auto done = co_await upstream_.change(name_, std::move(change), part, kPatience);
  if (!done.answer) co_return Committed{fail(done.answer.error()), done.may_have_happened};
  auto tag = has_parts() ? dialect.completed_tag_in(*server, *done.answer)
                         : tag_in(name_, dialect, *done.answer, md5_);
  if (tag && entry_) co_await entry_->end();
  // A tag of other bytes: they are the object now, whatever they are.
  const bool may_have_happened = !tag && (!has_parts() || tag.error().code == Errc::unavailable);
  co_return Committed{std::move(tag), may_have_happened};
}

Task<void> Upload::abandon() {
  if (id_.empty()) co_return;
  const bool gone = co_await abort_upload(upstream_, name_, id_);
  if (gone && entry_) co_await entry_->end();
}

Task<bool> abort_upload(Upstream& upstream, UpstreamName name, std::string id) {
  const Status done = co_await try_abort(upstream, name, id);
  if (done || done.error().code == Errc::object_not_found) co_return true;
  obs::log("target").warn("parts of an upload stay upstream object={} upload={} err={}",
                          name.display(), id, done.error().message);
  co_return false;
}

}  // namespace tarn::target
