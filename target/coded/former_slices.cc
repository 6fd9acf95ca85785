#include "target/coded/former_slices.h"

#include "common/base/fail_point.h"
#include "common/base/pause.h"
#include "target/coded/holder_calls.h"
#include "target/coded/slice_holder.h"

namespace tarn::target {
namespace {

/// A holder that has not heard after a minute asks when the map has changed, or within a day.
constexpr std::chrono::seconds kPauseFirst{1};
constexpr std::chrono::seconds kPauseLast{32};

bool former_slices_names(const io::ObjectRecord& record, std::uint64_t set, std::size_t slice,
                         const std::string& holder) {
  return record.coding && record.coding->set == set && record.coding->holders[slice] == holder;
}

/// Repeats the order until the holder has it, or it is time to leave it to the holder, which asks.
Task<void> drop_patiently(TargetNode& node, std::string holder, SliceDrop order) {
  for (auto wait = kPauseFirst; wait <= kPauseLast; wait *= 2) {
    const Status told = co_await drop_at(node, holder, order);
    if (told) co_return;
    co_await pause(wait);
  }
}

}  // namespace

void drop_there(TargetNode& node, const asio::any_io_executor& executor, std::string holder,
                SliceDrop order) {
  if (holder == node.id)
    drop_slice_later(node, std::move(order));
  else if (!holder.empty())
    node.aside.spawn(executor, "drop of a slice",
                     drop_patiently(node, std::move(holder), std::move(order)));
}

void drop_former(TargetNode& node, const asio::any_io_executor& executor, const ObjectName& name,
                 const io::Coding& former, const io::ObjectRecord& now) {
  const auto drop_at_holder = [&](const std::string& holder, std::uint8_t index) {
    drop_there(node, executor, holder,
               {{name.bucket, name.object, former.set, index}, now.generation});
  };
  for (std::size_t i = 0; i < former.holders.size(); ++i)
    if (!former_slices_names(now, former.set, i, former.holders[i]))
      drop_at_holder(former.holders[i], static_cast<std::uint8_t>(i));
  const bool same_full_copy =
      now.coding && now.coding->set == former.set && now.coding->full_copy == former.full_copy;
  if (!same_full_copy) drop_at_holder(former.full_copy, io::kFullCopy);
}

}  // namespace tarn::target
