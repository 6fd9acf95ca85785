// Changing a mirrored name (docs/decisions/013): every copy is prepared, then every record is
// committed, and only then readers see the change. Comments at the steps state what a crash leaves
// after each.

#include <algorithm>
#include <iterator>

#include "common/base/buffer_pool.h"
#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/hash.h"
#include "common/obs/log.h"
#include "target/store/mirror.h"
#include "target/store/object_store.h"

namespace tarn::target {
namespace {

Task<Status> prepare_one(Drive* drive, WorkFile* file, const Drive::Publication* publication) {
  CO_FAIL_POINT("mirror.before_prepare");
  const Status prepared = co_await drive->prepare(*file, *publication);
  co_return prepared;
}

Task<Status> commit_one(Drive* drive, WorkFile* file, const Drive::Publication* publication) {
  const Status committed = co_await drive->commit_prepared(*file, *publication);
  if (committed) CO_FAIL_POINT("mirror.one_committed");
  co_return committed;
}

Task<Status> remove_one(Drive* drive, ObjectName name, io::ObjectRecord tombstone, bool keep) {
  const Status removed = co_await drive->remove(name.bucket, name.object, tombstone, keep);
  if (removed) CO_FAIL_POINT("mirror.one_removed");
  co_return removed;
}

/// Returns the ids of the drives that were asked (`asked[k]` of `ids`) whose step `done[k]` failed;
/// `why` is the last of these failures.
std::set<std::string> failed_among(const std::vector<std::size_t>& asked,
                                   const std::vector<std::string>& ids,
                                   const std::vector<Status>& done, Status& why) {
  std::set<std::string> failed;
  for (std::size_t k = 0; k < done.size(); ++k) {
    if (done[k]) continue;
    why = done[k];
    failed.insert(ids[asked[k]]);
  }
  return failed;
}

Task<Status> patch_one(Drive* drive, io::ObjectAttribute attribute) {
  const Status patched = co_await drive->patch(std::move(attribute));
  if (patched) CO_FAIL_POINT("mirror.one_patched");
  co_return patched;
}

}  // namespace

Status Mirror::writable(const ObjectName& name) const {
  std::size_t usable = 0;
  for (const auto& drive : store_.drives()) usable += drive->in_service() ? 1 : 0;
  const std::size_t required = copies_required(name.copies);
  if (usable >= required) return {};
  return fail(Errc::unavailable,
              "object {} is to have {} copies, a write needs {} drives and {} can be used",
              name.object, name.copies, required, usable);
}

/// Drives that are away miss this change, and must not be believed when they are back.
Task<Status> Mirror::note_away(const Survey& survey) {
  std::set<std::string> away;
  for (std::size_t i = 0; i < survey.views.size(); ++i)
    if (survey.views[i].standing == Standing::away) away.insert(survey.ids[i]);
  if (away.empty()) co_return Status();
  co_return co_await note_stale(std::move(away));
}

/// A further copy of what is in `from`: read back, mostly from memory, and compared with the
/// checksums that were taken when it came.
Task<Result<std::unique_ptr<WorkFile>>> Mirror::copy_work_file(
    WorkFile& from, Drive& to, const io::ObjectRecord& record,
    const std::vector<std::uint32_t>& sums) {
  auto made = co_await to.create(record.file_bytes(), false);
  if (!made && made.error().code == Errc::no_space)
    made = co_await to.create(record.file_bytes(), true);
  if (!made) co_return fail(made.error());
  auto file = std::move(*made);
  const PooledBuffer buffer(PooledBuffer::kBlockBytes);
  for (std::size_t block = 0; block < sums.size(); ++block) {
    const std::uint64_t at = block * kBlockBytes;
    TARN_CHECK(at < record.file_bytes());  // there are as many checksums as blocks
    const auto chunk = buffer.span().first(std::min(kBlockBytes, record.file_bytes() - at));
    CO_TRY_OK(co_await from.drive().read_back(from, chunk, at));
    if (crc32c(chunk) != sums[block])
      co_return fail(Errc::corrupt, "drive {} gives back other bytes than were written",
                     from.drive().path());
    auto writing = to.write(*file, chunk, at);
    CO_TRY_OK(co_await writing.get());
    CO_TRY_OK(co_await to.room(*file));
  }
  co_return std::move(file);
}

/// Up to `count` further copies, as many as can be made, on the drives that placement prefers.
Task<std::vector<std::unique_ptr<WorkFile>>> Mirror::make_copies(
    ObjectName name, WorkFile& first, const io::ObjectRecord& record,
    const std::vector<std::uint32_t>& sums, std::size_t count,
    const std::set<const Drive*>& except) {
  std::vector<Drive*> candidates;
  const auto set = store_.set_.get();
  for (const std::size_t index : set->order(name))
    if (index < set->drives.size() && !except.contains(set->drives[index].get()) &&
        set->drives[index]->in_service())
      candidates.push_back(set->drives[index].get());
  std::vector<std::unique_ptr<WorkFile>> files;
  std::size_t next = 0;
  while (files.size() < count && next < candidates.size()) {
    std::vector<Task<Result<std::unique_ptr<WorkFile>>>> tries;
    const std::size_t wanted = count - files.size();
    for (; tries.size() < wanted && next < candidates.size(); ++next)
      tries.push_back(copy_work_file(first, *candidates[next], record, sums));
    auto made = co_await gather(std::move(tries));
    for (auto& each : made) {
      if (each) {
        files.push_back(std::move(*each));
      } else {
        obs::log("target").warn("copy not made object={} err={}", name.object,
                                each.error().message);
      }
    }
  }
  co_return files;
}

/// Prepares all copies. Those that fail are taken out of `copies`: a start may adopt what is left
/// of them, which is this very version.
Task<Status> Mirror::prepare_all(std::vector<Prepared>& copies) {
  std::vector<Task<Status>> steps;
  steps.reserve(copies.size());
  for (Prepared& copy : copies)
    steps.push_back(prepare_one(copy.drive, copy.file, &copy.publication));
  const auto done = co_await gather(std::move(steps));
  std::vector<Prepared> good;
  Status problem;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (done[i]) {
      good.push_back(std::move(copies[i]));
    } else {
      problem = done[i];
      obs::log("target").warn("copy not prepared drive={} err={}", copies[i].drive->path(),
                              done[i].error().message);
    }
  }
  copies = std::move(good);
  co_return problem;
}

Task<Status> Mirror::commit_all(const ObjectName& name, std::vector<Prepared>& copies,
                                const Survey& before, WorkFile& first, std::size_t required) {
  // No reader sees the new version on one drive before all have it: a reader in this moment waits.
  const auto gate = co_await committing_.acquire(name.key());
  const OpenObjects::Change change(store_.open_, name.bucket, name.object);
  std::vector<Task<Status>> steps;
  steps.reserve(copies.size());
  for (Prepared& copy : copies)
    steps.push_back(commit_one(copy.drive, copy.file, &copy.publication));
  // Every copy is durable: from here on the new version counts, whatever is left out. A start
  // adopts it, and readers wait until the older copies have gone.
  CO_FAIL_POINT("mirror.before_commit");
  const auto done = co_await gather(std::move(steps));
  std::set<std::string> failed;
  std::set<const Drive*> holders;
  std::size_t committed = 0;
  Status problem;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (done[i]) {
      ++committed;
      holders.insert(copies[i].drive);
    } else {
      problem = done[i];
      failed.insert(copies[i].drive->id());
    }
  }
  if (committed == 0) co_return problem;
  // Copies lie on a drive each.
  TARN_CHECK(holders.size() == committed);
  // Older versions elsewhere: what cannot be removed must not be believed any more.
  for (std::size_t i = 0; i < before.drives.size(); ++i) {
    if (!before.records[i] || before.views[i].standing == Standing::away) continue;
    if (holders.contains(before.drives[i])) continue;
    if (failed.contains(before.ids[i])) continue;
    io::ObjectRecord marker = copies.front().publication.attribute.record;
    marker.kind = io::ObjectRecord::Kind::tombstone;
    const Status gone = co_await remove_one(before.drives[i], name, marker, false);
    if (!gone) failed.insert(before.ids[i]);
  }
  if (!failed.empty()) CO_TRY_OK(co_await note_stale(failed));
  if (committed < name.copies) {
    first.set_degraded();
    CO_TRY_OK(co_await note_fewer(name.bucket, committed));
  }
  if (committed < required)
    co_return fail(Errc::unavailable,
                   "only {} of {} copies of {} were committed: the outcome is unknown", committed,
                   name.copies, name.object);
  CO_FAIL_POINT("mirror.before_reply");
  co_return Status();
}

Task<Status> Mirror::publish(ObjectName name, WorkFile& file, io::ObjectAttribute attribute,
                             std::vector<std::uint32_t> checksums, cluster::Durability durability) {
  std::set<const Drive*> tried{&file.drive()};
  const auto copies_but_one = static_cast<std::size_t>(std::max<int>(name.copies, 1)) - 1;
  auto extra = co_await make_copies(name, file, attribute.record, checksums, copies_but_one, tried);
  auto before = co_await survey(name, Patience::writer);
  const auto publication_on = [&](Drive& drive, const io::FileName& its) {
    Drive::Publication out{attribute, checksums, std::nullopt, false, cluster::Durability::full};
    out.attribute.record.file = its;
    for (std::size_t i = 0; i < before.drives.size(); ++i)
      if (before.drives[i] == &drive) out.old = before.records[i];
    return out;
  };
  std::vector<Prepared> copies;
  copies.push_back({&file.drive(), &file, publication_on(file.drive(), file.name())});
  for (auto& each : extra) {
    copies.push_back({&each->drive(), each.get(), publication_on(each->drive(), each->name())});
    tried.insert(&each->drive());
  }
  const std::size_t required =
      durability == cluster::Durability::strict ? name.copies : copies_required(name.copies);
  if (copies.size() < required)
    co_return fail(Errc::unavailable, "{} is to have {} copies, and {} drives take one now",
                   name.object, name.copies, copies.size());
  CO_TRY_OK(co_await note_away(before));
  if (!SAFETY("safety.mirror_prepare")) {
    const OpenObjects::Change change(store_.open_, name.bucket, name.object);
    CO_TRY_OK(co_await file.drive().publish(file, copies.front().publication));
    copies.erase(copies.begin());
    for (std::size_t i = 0; i < before.drives.size(); ++i)
      if (before.drives[i] == &file.drive()) before.records[i].reset();
  }
  // A crash leaves files that a start adopts, as long as no later version is there. The old version
  // or the new one is read everywhere, and no reader has seen the new one yet.
  Status problem = co_await prepare_all(copies);
  // Instead of a drive that has just failed: while it is away, lists rely on there being as many.
  std::vector<std::unique_ptr<WorkFile>> instead;
  if (!copies.empty() && copies.size() < name.copies && !problem) {
    instead = co_await make_copies(name, *copies.front().file, attribute.record, checksums,
                                   name.copies - copies.size(), tried);
    std::vector<Prepared> more;
    more.reserve(instead.size());
    for (auto& each : instead)
      more.push_back({&each->drive(), each.get(), publication_on(each->drive(), each->name())});
    static_cast<void>(co_await prepare_all(more));
    std::move(more.begin(), more.end(), std::back_inserter(copies));
  }
  if (copies.size() >= required)
    problem =
        copies.size() < name.copies ? co_await note_fewer(name.bucket, copies.size()) : Status();
  if (!problem) {
    for (Prepared& copy : copies) co_await copy.drive->drop_prepared(*copy.file);
    co_return problem;
  }
  CO_FAIL_POINT("mirror.prepared");
  const Status done = co_await commit_all(name, copies, before, file, required);
  co_return done;
}

Task<Status> Mirror::patch(ObjectName name, io::ObjectAttribute attribute) {
  const auto before = co_await survey(name, Patience::writer);
  CO_TRY_OK(co_await note_away(before));
  const auto gate = co_await committing_.acquire(name.key());
  const OpenObjects::Change change(store_.open_, name.bucket, name.object);
  std::vector<Task<Status>> steps;
  for (const std::size_t i : before.verdict.holders) {
    attribute.record.file = before.records[i]->file;
    steps.push_back(patch_one(before.drives[i], attribute));
  }
  const auto done = co_await gather(std::move(steps));
  Status problem;
  auto failed = failed_among(before.verdict.holders, before.ids, done, problem);
  // An error of the attribute is the same for all of them.
  if (failed.size() == done.size()) co_return problem;
  for (const std::size_t i : before.verdict.older) failed.insert(before.ids[i]);
  if (!failed.empty()) CO_TRY_OK(co_await note_stale(failed));
  co_return Status();
}

Task<Status> Mirror::remove(ObjectName name, io::ObjectRecord tombstone) {
  const auto before = co_await survey(name, Patience::writer);
  CO_TRY_OK(co_await note_away(before));
  const auto gate = co_await committing_.acquire(name.key());
  const OpenObjects::Change change(store_.open_, name.bucket, name.object);
  std::vector<Task<Status>> steps;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < before.drives.size(); ++i) {
    if (!before.records[i] || before.views[i].standing == Standing::away) continue;
    asked.push_back(i);
    steps.push_back(remove_one(before.drives[i], name, tombstone, true));
  }
  // A tombstone that came from another target is kept although there is nothing to delete; and
  // there are as many as copies, also where some of these are away.
  for (std::size_t i = 0; i < before.drives.size() && steps.size() < name.copies; ++i) {
    if (before.views[i].standing == Standing::away || before.records[i]) continue;
    asked.push_back(i);
    steps.push_back(remove_one(before.drives[i], name, tombstone, true));
  }
  if (steps.empty())
    co_return fail(Errc::unavailable, "no drive can note that {} is deleted", name.object);
  if (steps.size() < name.copies) CO_TRY_OK(co_await note_fewer(name.bucket, steps.size()));
  const auto done = co_await gather(std::move(steps));
  Status problem;
  const auto failed = failed_among(asked, before.ids, done, problem);
  if (failed.size() == done.size()) co_return problem;
  if (!failed.empty()) CO_TRY_OK(co_await note_stale(failed));
  std::size_t noted = done.size() - failed.size();
  // Instead of a drive that has just failed: while it is away, lists rely on there being as many.
  for (std::size_t i = 0; i < before.drives.size() && noted < name.copies; ++i) {
    if (before.views[i].standing == Standing::away || !before.drives[i]->usable()) continue;
    if (std::find(asked.begin(), asked.end(), i) != asked.end()) continue;
    const Status more = co_await remove_one(before.drives[i], name, tombstone, true);
    if (more) ++noted;
  }
  if (noted < name.copies) CO_TRY_OK(co_await note_fewer(name.bucket, noted));
  co_return Status();
}

}  // namespace tarn::target
