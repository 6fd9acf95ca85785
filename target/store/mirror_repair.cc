// Making the copies of a mirrored name what they should be: added, made anew, brought up to date,
// taken away. Bytes are copied without the name's lock; under it, it is looked whether they are
// still wanted.

#include <algorithm>

#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/block_writer.h"
#include "target/store/mirror.h"
#include "target/store/object_store.h"

namespace tarn::target {
namespace {

constexpr int kMirrorRepairAttemptsMax = 20;

}  // namespace

Task<Result<Mirror::Repaired>> Mirror::repair(ObjectName name, std::size_t wanted,
                                              const Drive* bad) {
  Repaired done;
  for (int attempt = 0; attempt < kMirrorRepairAttemptsMax; ++attempt) {
    const auto found = co_await survey(name, Patience::writer);
    const CopyVerdict& verdict = found.verdict;
    if (verdict.kind == CopyVerdict::Kind::unavailable)
      co_return fail(Errc::unavailable, "object {}: a drive that may hold it is away", name.object);
    if (verdict.kind == CopyVerdict::Kind::none) {
      if (verdict.older.empty()) co_return done;
      CO_TRY_OK(co_await delete_older(name, done));
      continue;
    }
    const CopyPlan plan = plan_copies(found.views, verdict, wanted);
    done.missing = plan.missing;
    // Copies first: nothing goes before what follows it is durable.
    std::optional<std::size_t> to;
    for (const std::size_t i : verdict.holders)
      if (found.drives[i] == bad) to = i;
    if (!to && !plan.add.empty()) to = plan.add.front();
    if (to) {
      CO_TRY(const bool made, co_await bring_up(name, found, *to, bad, done));
      if (made && found.drives[*to] == bad) bad = nullptr;
      continue;
    }
    std::optional<std::size_t> from;
    if (!verdict.older.empty()) from = verdict.older.front();
    if (!from && !plan.remove.empty()) {
      from = plan.remove.front();
      CO_TRY_OK(co_await note_fewer(name.bucket, wanted));
    }
    if (!from) co_return done;
    CO_TRY_OK(co_await remove_all(name, found, *from, done));
  }
  co_return fail(Errc::unavailable, "object {} is being changed again and again", name.object);
}

/// Makes a copy of the newest version on drive `to`, whatever is there now. False: the name changed
/// meanwhile.
Task<Result<bool>> Mirror::bring_up(const ObjectName& name, const Survey& survey_before,
                                    std::size_t to, const Drive* bad, Repaired& done) {
  const Generation newest = survey_before.verdict.newest;
  Drive& target = *survey_before.drives[to];
  Error last{Errc::corrupt, "object " + name.object + " has no good copy"};
  for (const std::size_t i : survey_before.verdict.holders) {
    Drive& source = *survey_before.drives[i];
    if (i == to || &source == bad) continue;
    auto opened = co_await source.open_object(name.bucket, name.object);
    if (!opened) {
      last = opened.error();
      continue;
    }
    const std::shared_ptr<OpenObject> object = std::move(*opened);
    if (!object || object->record().generation != newest) co_return false;
    CO_TRY(io::ObjectAttribute attribute, co_await source.attribute_of(object));
    auto made = co_await target.create(object->file_bytes(), false);
    if (!made && made.error().code == Errc::no_space)
      made = co_await target.create(object->file_bytes(), true);
    if (!made) co_return fail(made.error());
    const auto file = std::move(*made);
    Digests digests;
    const Status copied = co_await copy_file(*object, *file, digests);
    if (!copied) {
      last = copied.error();
      if (last.code == Errc::corrupt) report_bad(name, source);
      continue;
    }
    if (!object->record().coding && digests.xxh64() != object->record().xxh64)
      co_return fail(Errc::corrupt, "object {} on drive {} is not what was stored", name.object,
                     source.path());
    const auto held = co_await store_.locks().acquire(name.key());
    const auto now = co_await survey(name, Patience::writer);
    const auto place = now.place_of(target);
    if (now.verdict.kind != CopyVerdict::Kind::found || now.verdict.newest != newest || !place ||
        target.disabled())
      co_return false;
    CO_FAIL_POINT("mirror.before_repair");
    Drive::Publication publication;
    publication.attribute = std::move(attribute);
    publication.attribute.record = object->record();
    publication.attribute.record.file = file->name();
    publication.checksums = digests.blocks();
    publication.old = now.records[*place];
    const OpenObjects::Change change(store_.open_, name.bucket, name.object);
    CO_TRY_OK(co_await target.publish(*file, std::move(publication)));
    ++done.added;
    done.bytes += object->file_bytes();
    co_return true;
  }
  co_return fail(std::move(last));
}

/// Takes the record on drive `from` away: an older version, or a copy too many.
Task<Result<bool>> Mirror::remove_all(const ObjectName& name, const Survey& survey_before,
                                      std::size_t from, Repaired& done) {
  const auto held = co_await store_.locks().acquire(name.key());
  const auto now = co_await survey(name, Patience::writer);
  const Drive& drive = *survey_before.drives[from];
  const auto place = now.place_of(drive);
  const bool same = place && !drive.disabled() && now.verdict.kind == CopyVerdict::Kind::found &&
                    now.verdict.newest == survey_before.verdict.newest &&
                    now.records[*place] == survey_before.records[from] &&
                    now.verdict.holders.size() >= survey_before.verdict.holders.size();
  if (!same) co_return false;
  io::ObjectRecord marker = *now.records[*place];
  marker.kind = io::ObjectRecord::Kind::tombstone;
  const OpenObjects::Change change(store_.open_, name.bucket, name.object);
  CO_TRY_OK(co_await now.drives[*place]->remove(name.bucket, name.object, marker, false));
  ++done.removed;
  co_return true;
}

/// Writes the tombstone of a deleted name where an older version is.
Task<Result<bool>> Mirror::delete_older(const ObjectName& name, Repaired& done) {
  const auto held = co_await store_.locks().acquire(name.key());
  const auto now = co_await survey(name, Patience::writer);
  if (now.verdict.kind != CopyVerdict::Kind::none || now.verdict.holders.empty()) co_return false;
  const OpenObjects::Change change(store_.open_, name.bucket, name.object);
  for (const std::size_t i : now.verdict.older) {
    CO_TRY_OK(co_await now.drives[i]->remove(name.bucket, name.object,
                                             *now.records[now.verdict.holders.front()], true));
    ++done.removed;
  }
  co_return true;
}

}  // namespace tarn::target
