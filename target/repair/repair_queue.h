#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "target/repair/repair_plan.h"
#include "target/store/object_name.h"

namespace tarn::target {

/// Danger of an object as long as `repair` has not been carried out: how many more slices may go
/// before it is lost. Repairs that only move or drop slices come last: they make nothing safer.
/// Pure.
[[nodiscard]] std::size_t danger_of(const Repair& repair);

/// Objects that are to be repaired, the most endangered first. So many at most: when there are
/// more, the least endangered are let go, and the next look finds them again. For one coroutine.
class RepairQueue {
 public:
  /// After all objects of which something is missing.
  static constexpr std::size_t kInNoDanger = SIZE_MAX;
  struct Entry {
    ObjectName name;
    std::size_t missing = 0;  ///< slices
    std::uint64_t bytes = 0;  ///< written by the repair
  };

  explicit RepairQueue(std::size_t names_max) : names_max_(names_max) {}

  /// Adds an object. `danger`: from danger_of(). Of objects in the same danger the first that came
  /// goes first.
  void add(std::size_t danger, Entry entry);
  /// The most endangered one; nothing when there is none any more.
  [[nodiscard]] std::optional<Entry> next();

  [[nodiscard]] std::size_t size() const { return size_; }
  /// True if there were more than it may hold.
  [[nodiscard]] bool let_some_go() const { return let_some_go_; }
  /// Sums of all objects that were ever added, with those that were let go.
  struct Added {
    std::map<std::size_t, std::uint64_t, std::greater<>> objects;  ///< by their missing slices
    std::map<BucketId, std::uint64_t> buckets;                     ///< objects
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] const Added& added() const { return added_; }

 private:
  void let_last_go();

  const std::size_t names_max_;
  std::map<std::size_t, std::deque<Entry>> entries_;  // by danger; none is empty
  std::size_t size_ = 0;
  bool let_some_go_ = false;
  Added added_;
};

}  // namespace tarn::target
