#include "target/replica/uncounted_copies.h"

#include "common/api/mirror_props.h"
#include "common/api/upstream_props.h"

namespace tarn::target {

Result<UncountedCopies> UncountedCopies::of(TargetNode& node, const cluster::BucketRecord& bucket) {
  UncountedCopies out;
  const bool has_copies = bucket.replica_count().many() || api::copies_of(bucket.props) > 0;
  if (api::has_upstream(bucket.name) && !has_copies) return out;
  for (const auto& drive : node.store.drives()) {
    if (!drive->in_service()) continue;
    const auto board = node.scrub.of(drive->path());
    if (!board->known())
      return fail(Errc::unavailable, "the bad files of drive {} are not known yet", drive->path());
    const ScrubState its = board->state();
    for (const ScrubFinding& each : its.found) {
      if (each.outcome != ScrubFinding::Outcome::open) continue;
      if (each.key.name.empty())
        return fail(Errc::unavailable, "drive {}: {}", drive->path(), each.error);
      if (!each.slice && each.key.bucket == bucket.id) out.files_[drive.get()].insert(each.file);
    }
  }
  return out;
}

bool UncountedCopies::contains(const Drive& drive, const io::ObjectRecord& record) const {
  const auto found = files_.find(&drive);
  return found != files_.end() && record.kind == io::ObjectRecord::Kind::object &&
         found->second.contains(record.file);
}

}  // namespace tarn::target
