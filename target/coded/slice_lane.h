#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <boost/asio/steady_timer.hpp>

#include "ec/stripe.h"
#include "target/coded/holder_calls.h"
#include "target/coded/slice_holder.h"
#include "target/node/node.h"

namespace tarn::target {

/// A slice on its way to its holder, another target or this one, while its bytes are being made: a
/// queue and a task that sends them. A slow holder does not hold up the writer before the queue is
/// full. For one event loop; what is under way keeps itself alive and is of TargetNode::aside.
class SliceLane : public std::enable_shared_from_this<SliceLane> {
 public:
  /// Stripes that wait for one holder, of each what it shall have.
  static constexpr std::size_t kQueuedMax = 4;
  /// A holder that takes nothing for so long, while as much as may wait for it does, has failed; a
  /// holder whose lease has ended fails at once.
  static constexpr std::chrono::seconds kPatience{5};

  /// Ok: `holder` has a file for the slice; of a full copy it is this target. Errors as
  /// begin_slice() and SliceUpload::open().
  static Task<Result<std::shared_ptr<SliceLane>>> open(TargetNode& node, std::string holder,
                                                       SliceWrite write);

  [[nodiscard]] const std::string& holder() const { return holder_; }
  [[nodiscard]] std::uint8_t index() const { return write_.key.index; }
  [[nodiscard]] bool is_full_copy() const { return index() == io::kFullCopy; }
  [[nodiscard]] SliceToken token() const { return write_.token; }
  [[nodiscard]] bool failed() const { return !status_; }

  /// Sends `bytes`, which `keeper` keeps alive, there after those before them: a block of a slice,
  /// or the next bytes of a full copy. timeout, and whatever ended it: then it has failed for good.
  Task<Status> push(std::shared_ptr<const void> keeper, std::span<const std::byte> bytes);
  /// True if push() would not wait.
  [[nodiscard]] bool has_room() const { return queue_.size() < queued_max_; }
  /// Ok: all of it is there, to be sealed under token().
  Task<Status> finish();
  /// Makes a slice of what finish() has brought there: of the version that `object` describes, for
  /// a record of generation `named_by`. With `anew` also in place of one that is as new. Errors as
  /// seal_slice(); then it has failed.
  Task<Status> seal(const io::ObjectAttribute& object, Generation written, Generation named_by,
                    bool anew);
  /// Has the holder remove what is not sealed. Does not wait.
  void give_up();

 private:
  struct Bytes {
    std::shared_ptr<const void> keeper;
    std::span<const std::byte> span;
  };

  SliceLane(TargetNode& node, std::string holder, SliceWrite write,
            const asio::any_io_executor& executor);
  void start(asio::any_io_executor executor, std::optional<SliceUpload> upload,
             std::unique_ptr<NewSlice> slice);
  Task<Status> carry(SliceUpload upload);
  Task<Status> store(std::unique_ptr<NewSlice> slice);
  Task<Result<std::optional<Bytes>>> next();
  Task<bool> wait(std::chrono::steady_clock::time_point until);
  [[nodiscard]] bool has_lease() const;
  void fail_with(Error error);
  static Task<void> run(std::shared_ptr<SliceLane> self, Task<Status> work);
  static Task<void> abandon(std::shared_ptr<SliceLane> self);

  TargetNode& node_;
  std::shared_ptr<Drive> drive_;  // of this target that takes the slice; null: another target's
  const std::string holder_;
  const SliceWrite write_;
  asio::steady_timer changed_;  // never runs out: cancelled when one of those below changes
  std::deque<Bytes> queue_;
  const std::size_t queued_max_;
  bool ended_ = false;  // no further bytes will come
  bool done_ = false;   // the task that sends has ended
  Status status_;
};

}  // namespace tarn::target
