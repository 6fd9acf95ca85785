#include "target/node/sender.h"

#include <algorithm>
#include <array>

#include "common/base/buffer_pool.h"
#include "common/base/check.h"
#include "target/drive/drive.h"

namespace tarn::target {
namespace {

constexpr std::uint64_t kSendBytes = 2U << 20U;    // asked for residency and sent at once
constexpr std::uint64_t kSmallBytes = 16U << 10U;  // copied: cheaper than a sendfile of their own
constexpr int kLostMax = 2;

}  // namespace

Sender::Sender(http::Exchange& exchange, std::shared_ptr<OpenObject> object, http::ByteRange range,
               bool verify_always, OtherCopies* others, bool impatient)
    : exchange_(exchange),
      others_(others),
      object_(std::move(object)),
      at_(range.offset),
      end_(range.offset + range.length) {
  options_.keep_cached = object_->begin_reading();
  options_.verify_always = verify_always;
  options_.impatient = impatient || others != nullptr;
}

Sender::~Sender() {
  object_->end_reading();
  if (ahead_) ahead_->close();
}

void Sender::read_ahead_from(std::uint64_t at) {
  TARN_CHECK(at < end_);
  ahead_ = std::make_shared<ReadAhead>(object_, at, end_, options_);
}

Task<Status> Sender::begin(http::Response head) {
  thread_local std::array<std::byte, kSmallBytes> buffer;
  const std::uint64_t length = end_ - at_;
  const bool may_copy = length > 0 && length <= kSmallBytes && object_->has_checksums();
  if (may_copy && !options_.verify_always) {
    const auto bytes = std::span(buffer).first(length);
    if (object_->copy_from_memory(at_, bytes)) {
      CO_TRY(const std::uint64_t sent,
             co_await exchange_.begin_with(std::move(head), length, bytes));
      at_ += sent;
      object_->drive().note_sent(sent);
      co_return Status();
    }
  }
  CO_TRY_OK(co_await begin_reading());
  co_return co_await exchange_.begin(std::move(head), length);
}

/// The first bytes, from whichever copy has them.
Task<Status> Sender::begin_reading() {
  while (true) {
    Status prepared = co_await prepare();
    if (prepared) co_return prepared;
    const bool goes_on = co_await go_on_elsewhere(prepared.error());
    if (!goes_on) co_return prepared;
  }
}

/// True if another copy replaces the one whose drive failed: from the same offset on, and the
/// client does not notice.
Task<bool> Sender::go_on_elsewhere(Error why) {
  if (others_ == nullptr) co_return false;
  auto other = co_await others_->instead_of(object_, std::move(why));
  if (!other) co_return false;
  if (ahead_) ahead_->close();
  ahead_.reset();
  object_->end_reading();
  object_ = std::move(other);
  options_.keep_cached = object_->begin_reading();
  co_return true;
}

Task<Result<std::uint64_t>> Sender::ready() {
  while (true) {
    auto ready = co_await ahead_->ready(at_);
    if (ready) co_return ready;
    const bool goes_on = co_await go_on_elsewhere(ready.error());
    if (!goes_on) co_return ready;
    CO_TRY_OK(co_await begin_reading());
    if (!ahead_) read_ahead_from(at_);
  }
}

Task<Status> Sender::prepare() {
  if (at_ == end_) co_return Status();
  // An error before the first byte is answered from elsewhere, or reports what is wrong.
  if (const auto failed = object_->failed_block(at_, end_ - at_)) {
    const std::uint64_t begin = *failed * kBlockBytes;
    const std::uint64_t end = std::min(begin + kBlockBytes, object_->file_bytes());
    const auto again = std::make_shared<ReadAhead>(object_, begin, end, options_);
    const auto ready = co_await again->ready(begin);
    again->close();
    if (!ready) co_return fail(ready.error());
  }
  const bool whole = at_ == 0 && end_ == object_->file_bytes();
  if (!object_->has_checksums() && !whole) CO_TRY_OK(co_await object_->drive().adopt(*object_));
  const std::uint64_t first = std::min(end_ - at_, kSendBytes);
  if (!options_.verify_always && object_->may_send(at_, first)) co_return Status();
  read_ahead_from(at_);
  CO_TRY_OK(co_await ahead_->ready(at_));
  co_return Status();
}

Task<Status> Sender::send() {
  while (at_ < end_) {
    std::uint64_t upto = std::min(at_ + kSendBytes, end_);
    if (toll_) CO_TRY_OK(co_await toll_(upto - at_));
    if (!ahead_ && !object_->may_send(at_, upto - at_)) read_ahead_from(at_);
    if (ahead_) {
      CO_TRY(const std::uint64_t ready, co_await this->ready());
      upto = std::min(upto, ready);
    }
    if (!ahead_ || object_->may_send(at_, upto - at_)) {
      CO_TRY_OK(co_await send_from_memory(upto));
    } else if (++lost_ <= kLostMax) {
      ahead_->lost(at_);
    } else {
      CO_TRY_OK(co_await send_through_buffer());
    }
  }
  co_return Status();
}

Task<Status> Sender::send_from_memory(std::uint64_t upto) {
  const ResidentCheck check{*object_};
  CO_TRY(const std::uint64_t sent,
         co_await exchange_.send_file(object_->fd(), at_, upto - at_, check));
  TARN_CHECK(sent <= upto - at_);  // the rest would be missing in the answer
  at_ += sent;
  object_->drive().note_sent(sent);
  if (sent > 0) lost_ = 0;
  if (ahead_) ahead_->passed(at_);
  co_return Status();
}

/// Sends what does not stay in memory until it is sent: of file systems without a page cache, or
/// with too little memory for all readers.
Task<Status> Sender::send_through_buffer() {
  const std::uint64_t block = at_ / kBlockBytes;
  const PooledBuffer buffer(PooledBuffer::kBlockBytes);
  auto read = co_await object_->read_block(block, buffer.span());
  if (!read) {
    const bool goes_on = co_await go_on_elsewhere(read.error());
    if (goes_on) co_return co_await begin_reading();
  }
  CO_TRY(const std::size_t bytes, std::move(read));
  const std::uint64_t start = block * kBlockBytes;
  const std::uint64_t stop = std::min(end_, start + bytes);
  TARN_CHECK(start <= at_ && at_ < stop);
  CO_TRY_OK(co_await exchange_.write(
      std::span<const std::byte>(buffer.span()).subspan(at_ - start, stop - at_)));
  object_->drive().note_sent(stop - at_);
  at_ = stop;
  if (ahead_) ahead_->passed(at_);
  co_return Status();
}

}  // namespace tarn::target
