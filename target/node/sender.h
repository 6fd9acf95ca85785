#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/exchange.h"
#include "common/http/message.h"
#include "target/drive/read_ahead.h"

namespace tarn::target {

/// Source of the same bytes for a reader that a drive fails.
class OtherCopies {
 public:
  virtual ~OtherCopies() = default;
  /// Another copy of the version that `failed` is of, or null.
  virtual Task<std::shared_ptr<OpenObject>> instead_of(std::shared_ptr<OpenObject> failed,
                                                       Error why) = 0;
};

/// Sends part of an object as the body of an answer: from memory by sendfile on the event loop,
/// where a ReadAhead has brought and verified it. Lives while the answer is sent; the loop of its
/// connection only.
class Sender {
 public:
  /// `verify_always`: compare with the checksums also what was verified when it came into memory.
  /// `others`: null when there is one copy only. `impatient`, as with other copies: unavailable
  /// when its drive hangs.
  Sender(http::Exchange& exchange, std::shared_ptr<OpenObject> object, http::ByteRange range,
         bool verify_always, OtherCopies* others = nullptr, bool impatient = false);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// Begins the answer once the first bytes are there, so that a bad block is an error status and
  /// not a cut connection. A small range that is in memory leaves in one packet with the head.
  Task<Status> begin(http::Response head);
  /// Asked before bytes are brought, from here on: it may wait.
  using Toll = std::function<Task<Status>(std::uint64_t bytes)>;
  void set_toll(Toll toll) {
    toll_ = std::move(toll);
    options_.purpose = TurnFor::background;
  }
  /// Sends what is left of the range. Errors: corrupt and io of the drive, and those of the
  /// connection.
  Task<Status> send();
  [[nodiscard]] bool done() const { return at_ == end_; }
  /// The first byte of the object that was not sent.
  [[nodiscard]] std::uint64_t at() const { return at_; }

 private:
  /// Asked again whenever the client made us wait: pages may have been dropped meanwhile.
  struct ResidentCheck {
    OpenObject& object;
    bool operator()(std::uint64_t offset, std::uint64_t bytes) const {
      return object.may_send(offset, bytes);
    }
  };
  Task<Status> prepare();
  Task<bool> go_on_elsewhere(Error why);
  Task<Status> begin_reading();
  Task<Result<std::uint64_t>> ready();
  void read_ahead_from(std::uint64_t at);
  Task<Status> send_from_memory(std::uint64_t upto);
  Task<Status> send_through_buffer();

  http::Exchange& exchange_;
  OtherCopies* const others_;
  std::shared_ptr<OpenObject> object_;
  std::uint64_t at_;
  const std::uint64_t end_;
  ReadAhead::Options options_;
  Toll toll_;
  std::shared_ptr<ReadAhead> ahead_;  // none as long as all is in memory
  int lost_ = 0;                      // times that pages at `at_` vanished before they were sent
};

}  // namespace tarn::target
