#pragma once

#include <map>
#include <set>

#include "target/node/node.h"

namespace tarn::target {

/// Files of one bucket's objects on this target that a scrub or a reader found bad or gone, until
/// they are made again: they count as no copies. A value, of one moment.
class UncountedCopies {
 public:
  /// Returns those of the drives in service. unavailable while it is not known of all of them: for
  /// a moment after a start, and when a drive has more bad files than are noted. None of a bucket
  /// with an upstream and one copy of each object, which is fetched again.
  static Result<UncountedCopies> of(TargetNode& node, const cluster::BucketRecord& bucket);

  /// True if this record, of an object on `drive`, leads to a file that is bad.
  [[nodiscard]] bool contains(const Drive& drive, const io::ObjectRecord& record) const;

 private:
  std::map<const Drive*, std::set<io::FileName>> files_;
};

}  // namespace tarn::target
