// Survey of what the drives of this target know of a mirrored name, and reading it.

#include "target/store/mirror.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "target/store/object_store.h"

namespace tarn::target {
namespace {

constexpr int kMirrorAttemptsMax = 8;
constexpr double kFullPercent = 95;  // no copy is moved to a drive that is fuller
constexpr std::size_t kIdlerBy = 4;  // readers and tasks

std::size_t load_of(Drive& drive) {
  return drive.queued() + drive.turns().streams() + drive.turns().waiting();
}

/// Orders drives for a reader: those that are slow last, then by their load.
std::pair<bool, std::size_t> delay_at(Drive& drive) { return {drive.is_slow(), load_of(drive)}; }

Task<Result<std::optional<io::ObjectRecord>>> mirror_ask(Drive* drive, ObjectName name) {
  if (drive == nullptr) co_return fail(Errc::unavailable, "a drive is away");
  co_return co_await drive->find(name.bucket, name.object);
}

Error may_be_away(const ObjectName& name) {
  return {Errc::unavailable,
          fmt::format("object {}: a drive that may hold a copy of it, or a newer one, is away",
                      name.object)};
}

/// The newest first.
std::vector<Located> located(const CopyVerdict& verdict, const std::vector<Drive*>& drives,
                             std::vector<std::optional<io::ObjectRecord>> records) {
  std::vector<Located> out;
  for (const auto* group : {&verdict.holders, &verdict.older})
    for (const std::size_t i : *group) out.push_back({drives[i], std::move(*records[i])});
  return out;
}

/// True if a drive of the set is stale: for one that was detached, attach() sees to it.
bool any_of_set(const ObjectStore& store, const MirrorLedger& ledger) {
  const auto drives = store.drives();
  return std::any_of(drives.begin(), drives.end(), [&](const auto& drive) {
    return ledger.stale.contains(drive->id()) || ledger.stale_single.contains(drive->id());
  });
}

/// True if `ledger` promises less of some bucket's names than `before`.
bool has_fewer(const MirrorLedger& ledger, const MirrorLedger& before) {
  return std::any_of(before.complete.begin(), before.complete.end(), [&](const auto& each) {
    const auto now = ledger.complete.find(each.first);
    return now == ledger.complete.end() || now->second < each.second;
  });
}

}  // namespace

void Mirror::remember(MirrorLedger ledger, std::map<std::string, std::string> missing_ids,
                      std::string directory) {
  // Other drives may have taken the names of a stale drive, and have not noted it themselves.
  if (!ledger.stale.empty() || any_of_set(store_, ledger)) store_.expect_misplaced();
  // An older release has not noted whose they are.
  if (ledger.misplaced.empty() && store_.may_hold_misplaced()) {
    for (const auto& drive : store_.drives()) ledger.misplaced.insert(drive->id());
    for (const auto& [path, id] : missing_ids) ledger.misplaced.insert(id);
  }
  const MutexLock lock(mutex_);
  ledger_ = std::move(ledger);
  missing_ids_ = std::move(missing_ids);
  directory_ = std::move(directory);
}

Standing Mirror::standing(const Drive& drive) const {
  const MutexLock lock(mutex_);
  return ledger_.stale.contains(drive.id()) ? Standing::stale : Standing::good;
}

std::set<std::string> Mirror::stale() const {
  const MutexLock lock(mutex_);
  std::set<std::string> out;
  for (const auto& drive : store_.drives())
    if (drive->in_service() &&
        (ledger_.stale.contains(drive->id()) || ledger_.stale_single.contains(drive->id())))
      out.insert(drive->id());
  return out;
}

bool Mirror::stale_single(const Drive& drive) const {
  const MutexLock lock(mutex_);
  return ledger_.stale_single.contains(drive.id());
}

bool Mirror::may_be_misplaced(const Drive& place) const {
  const MutexLock lock(mutex_);
  return ledger_.stale.contains(place.id()) ||
         (ledger_.misplaced.contains(place.id()) && SAFETY("safety.misplaced_noted"));
}

bool Mirror::are_misplaced(const std::string& path) const {
  const MutexLock lock(mutex_);
  const auto known = missing_ids_.find(path);
  return known == missing_ids_.end() || ledger_.misplaced.contains(known->second);
}

bool Mirror::any_stale() const {
  const MutexLock lock(mutex_);
  return any_of_set(store_, ledger_);
}

std::optional<std::size_t> Mirror::Survey::place_of(const Drive& drive) const {
  const auto at = std::find(drives.begin(), drives.end(), &drive);
  if (at == drives.end()) return std::nullopt;
  return static_cast<std::size_t>(at - drives.begin());
}

Task<Mirror::Survey> Mirror::survey(const ObjectName& name, Patience patience) {
  Survey out;
  const std::size_t certain = surely(name.bucket, name.copies);
  const auto set = store_.set_.get();
  for (const std::size_t index : set->order(name)) {
    CopyView view;
    view.takes = false;
    Drive* drive = nullptr;
    if (index < set->drives.size()) {
      drive = set->drives[index].get();
      out.ids.push_back(drive->id());
      view.standing = standing(*drive);
      view.takes =
          drive->takes_files() && !drive->suspect() && drive->used_percent() < kFullPercent;
      view.leaves = drive->draining();
      // A reader does not wait for a drive that hangs.
      const bool is_patient = patience == Patience::writer || drive->not_overloaded().has_value();
      if (!drive->usable() || !is_patient) view.standing = Standing::away;
    } else {
      view.standing = Standing::away;
      const std::string& path = set->places[index].path;
      const std::string id = id_of_missing(path);
      out.ids.push_back(id.empty() ? path : id);
    }
    out.drives.push_back(drive);
    out.views.push_back(view);
  }
  std::vector<Task<Result<std::optional<io::ObjectRecord>>>> questions;
  questions.reserve(out.drives.size());
  for (std::size_t i = 0; i < out.drives.size(); ++i)
    questions.push_back(
        mirror_ask(out.views[i].standing == Standing::away ? nullptr : out.drives[i], name));
  auto answers = co_await gather(std::move(questions));
  TARN_CHECK(answers.size() == out.views.size() && out.ids.size() == out.views.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    out.records.emplace_back();
    if (!answers[i]) {
      out.views[i].standing = Standing::away;
    } else if (*answers[i]) {
      out.records[i] = std::move(**answers[i]);
      // Files on a disabled drive are not read, changed or removed, so it misses changes.
      if (out.drives[i]->disabled()) out.views[i].standing = Standing::away;
      out.views[i].record = CopyView::Record{
          out.records[i]->generation, out.records[i]->kind == io::ObjectRecord::Kind::object};
    }
  }
  out.verdict = judge_copies(out.views, certain);
  co_return out;
}

Task<void> Mirror::wait_for_commit(const ObjectName& name) {
  const std::string key = name.key();
  if (committing_.is_held(key)) const auto held = co_await committing_.acquire(key);
}

bool Mirror::is_pending(const Survey& survey) const {
  return std::any_of(survey.verdict.older.begin(), survey.verdict.older.end(),
                     [&](std::size_t i) { return survey.views[i].standing == Standing::good; });
}

Task<Result<std::vector<Located>>> Mirror::find_seen(ObjectName name) {
  auto found = co_await survey(name, Patience::writer);
  co_return located(found.verdict, found.drives, std::move(found.records));
}

Task<Result<std::vector<Located>>> Mirror::find_all(ObjectName name) {
  auto found = co_await survey(name, Patience::writer);
  // A change is being committed: no reader sees the new version before all drives have it.
  for (int attempt = 0; attempt < kMirrorAttemptsMax && is_pending(found); ++attempt) {
    if (!committing_.is_held(name.key())) break;
    co_await wait_for_commit(name);
    found = co_await survey(name, Patience::writer);
  }
  if (found.verdict.kind == CopyVerdict::Kind::unavailable) co_return fail(may_be_away(name));
  co_return located(found.verdict, found.drives, std::move(found.records));
}

bool Mirror::has_idler_than(const Drive& drive) const {
  std::size_t mine = 0;
  std::pair<bool, std::size_t> least{true, SIZE_MAX};
  const auto set = store_.set_.get();
  for (const auto& each : set->drives) {
    if (!each->in_service()) continue;
    const auto delay = delay_at(*each);
    least = std::min(least, delay);
    if (each.get() == &drive) mine = delay.second;
  }
  if (drive.is_slow() && !least.first) return true;
  return least.second != SIZE_MAX && mine >= least.second + kIdlerBy;
}

Task<Status> Mirror::resolve(ObjectName name) {
  co_await wait_for_commit(name);
  const auto found = co_await survey(name, Patience::reader);
  if (!is_pending(found)) co_return Status();
  const auto done = co_await repair(name, name.copies, nullptr);
  if (!done) co_return fail(done.error());
  co_return Status();
}

Task<Result<std::shared_ptr<OpenObject>>> Mirror::open(ObjectName name,
                                                       std::set<const Drive*> except,
                                                       const Generation* generation) {
  Error last{Errc::unavailable, "object " + name.object + " is being changed again and again"};
  for (int attempt = 0; attempt < kMirrorAttemptsMax; ++attempt) {
    co_await wait_for_commit(name);
    const OpenObjects::Moment before = store_.open_.now(name.bucket, name.object);
    const auto found = co_await survey(name, Patience::reader);
    if (found.verdict.kind == CopyVerdict::Kind::unavailable) co_return fail(may_be_away(name));
    if (is_pending(found)) {
      CO_TRY_OK(co_await resolve(name));
      continue;
    }
    if (found.verdict.kind == CopyVerdict::Kind::none) co_return std::shared_ptr<OpenObject>();
    if (generation != nullptr && found.verdict.newest != *generation)
      co_return fail(Errc::unavailable, "object {} was changed meanwhile", name.object);
    Drive* best = nullptr;
    for (const std::size_t i : found.verdict.holders)
      if (!except.contains(found.drives[i]) &&
          (best == nullptr || delay_at(*found.drives[i]) < delay_at(*best)))
        best = found.drives[i];
    if (best == nullptr) co_return fail(last);
    auto opened = co_await best->open_object(name.bucket, name.object);
    if (!opened) {
      if (opened.error().code == Errc::corrupt || opened.error().code == Errc::io)
        report_bad(name, *best);
      last = opened.error();
      except.insert(best);
      continue;
    }
    auto object = std::move(*opened);
    if (!object || object->record().generation != found.verdict.newest) continue;
    if (object->has_checksums() && except.empty())
      store_.open_.keep(name.bucket, name.object, before, object);
    co_return object;
  }
  co_return fail(last);
}

void Mirror::report_bad(const ObjectName& name, const Drive& drive) {
  constexpr std::size_t kBadMax = 10'000;  // the rest is found when it is read again
  const MutexLock lock(mutex_);
  const bool known = std::any_of(bad_.begin(), bad_.end(), [&](const Bad& each) {
    return each.drive == &drive && each.name.bucket == name.bucket &&
           each.name.object == name.object;
  });
  if (!known && bad_.size() < kBadMax) bad_.push_back({name, &drive});
}

std::deque<Mirror::Bad> Mirror::take_bad() {
  const MutexLock lock(mutex_);
  return std::exchange(bad_, {});
}

std::size_t Mirror::surely(BucketId bucket, std::uint8_t copies) const {
  const MutexLock lock(mutex_);
  const auto found = ledger_.complete.find(bucket);
  return found == ledger_.complete.end() ? 0 : std::min(found->second, copies);
}

bool Mirror::has_full_view(BucketId bucket, std::uint8_t copies) const {
  const auto set = store_.set_.get();
  const auto out = std::count_if(set->drives.begin(), set->drives.end(),
                                 [](const auto& drive) { return !drive->usable(); });
  const std::size_t away = set->missing.size() + static_cast<std::size_t>(out);
  return away == 0 || away < surely(bucket, copies);
}

MirrorLedger Mirror::ledger() const {
  const MutexLock lock(mutex_);
  return ledger_;
}

Task<Status> Mirror::complete(std::map<BucketId, std::uint8_t> copies, std::uint64_t disturbances) {
  const auto held = co_await ledger_lock_.acquire("ledger");
  MirrorLedger next = ledger();
  next.complete = std::move(copies);
  if (disturbances_.load() != disturbances || next == ledger()) co_return Status();
  co_return co_await save_ledger(std::move(next));
}

/// Before a version is seen that has fewer copies than its bucket is known to have.
Task<Status> Mirror::note_fewer(BucketId bucket, std::size_t copies) {
  disturb();  // first: a pass that ends now does not know of this one
  if (!SAFETY("safety.fewer_copies_noted")) co_return Status();
  const auto held = co_await ledger_lock_.acquire("ledger");
  if (surely(bucket, UINT8_MAX) <= copies) co_return Status();
  MirrorLedger next = ledger();
  next.complete.erase(bucket);
  co_return co_await save_ledger(std::move(next));
}

Task<Status> Mirror::note_fewer_everywhere(Drive* comes) {
  disturb();
  const auto held = co_await ledger_lock_.acquire("ledger");
  MirrorLedger next = ledger();
  if (next.complete.empty()) co_return Status();
  next.complete.clear();
  co_return co_await save_ledger(std::move(next), comes);
}

Task<Status> Mirror::save_ledger(MirrorLedger ledger, Drive* comes, bool needs_directory) {
  const std::string text = ledger.json();
  std::vector<Task<Status>> writes;
  std::string also = directory_;
  for (const auto& drive : store_.drives())
    if (drive->usable()) writes.push_back(drive->save_mirror_ledger(text, std::exchange(also, "")));
  if (comes != nullptr) writes.push_back(comes->save_mirror_ledger(text, std::exchange(also, "")));
  const auto written = co_await gather(std::move(writes));
  std::size_t places = 0;
  for (const Status& each : written) places += each ? 1 : 0;
  if (places == 0)
    co_return fail(Errc::unavailable, "no drive could note which other drives are stale");
  // The first has noted it in the directory, without which no drive is believed at a start.
  if ((needs_directory || has_fewer(ledger, this->ledger())) && !written.front())
    co_return written.front();
  const MutexLock lock(mutex_);
  ledger_ = std::move(ledger);
  co_return Status();
}

Task<Status> Mirror::comes(Drive& drive, MirrorLedger remembered, Misses misses) {
  if (misses.with_copies) remembered.stale.insert(drive.id());
  if (misses.single) remembered.stale_single.insert(drive.id());
  ++misplacings_;
  remembered.misplaced.merge(all_ids());
  remembered.misplaced.insert(drive.id());
  // A drive that comes may have names of which no other drive has a copy.
  CO_TRY_OK(co_await note_fewer_everywhere(&drive));
  co_return co_await note(std::move(remembered), &drive);
}

Task<Status> Mirror::returns(Drive& drive, MirrorLedger remembered) {
  co_return co_await note(std::move(remembered), &drive);
}

std::string Mirror::id_of_missing(const std::string& path) const {
  const MutexLock lock(mutex_);
  const auto known = missing_ids_.find(path);
  return known == missing_ids_.end() ? std::string() : known->second;
}

void Mirror::loses(const Drive& drive) {
  const MutexLock lock(mutex_);
  missing_ids_[drive.path()] = drive.id();
}

Task<Status> Mirror::goes(std::string path, Misses misses) {
  const auto drive = store_.drive_at(path);
  const std::string id = drive != nullptr ? drive->id() : id_of_missing(path);
  if (id.empty()) co_return Status();
  MirrorLedger more;
  if (misses.with_copies) more.stale.insert(id);
  if (misses.single) more.stale_single.insert(id);
  if (misses.for_good) CO_TRY_OK(co_await note_fewer_everywhere());
  co_return co_await note(std::move(more));
}

Task<Status> Mirror::note_evicted(EvictedDrives more) {
  const auto held = co_await ledger_lock_.acquire("ledger");
  MirrorLedger next;
  {
    const MutexLock lock(mutex_);
    for (const auto& [drive, buckets] : more) ledger_.add_evicted(drive, buckets);
    next = ledger_;
  }
  co_return co_await save_ledger(std::move(next), nullptr, true);
}

EvictedBuckets Mirror::evicted(const std::string& drive) const {
  const MutexLock lock(mutex_);
  const auto its = ledger_.evicted.find(drive);
  return its == ledger_.evicted.end() ? EvictedBuckets() : its->second;
}

Task<Status> Mirror::forget_evicted(std::string drive) {
  const auto held = co_await ledger_lock_.acquire("ledger");
  MirrorLedger next = ledger();
  if (next.evicted.erase(drive) == 0) co_return Status();
  co_return co_await save_ledger(std::move(next), nullptr, true);
}

Task<Result<bool>> Mirror::is_elsewhere(ObjectName name, const Drive& drive,
                                        Generation generation) {
  const auto found = co_await survey(name, Patience::writer);
  for (std::size_t i = 0; i < found.views.size(); ++i) {
    const auto& record = found.views[i].record;
    if (found.drives[i] != &drive && found.views[i].standing != Standing::away && record &&
        !(record->generation < generation))
      co_return true;
  }
  co_return false;
}

Task<Status> Mirror::note_stale(std::set<std::string> drives) {
  MirrorLedger more;
  more.stale = std::move(drives);
  co_return co_await note(std::move(more));
}

Task<Status> Mirror::note(MirrorLedger more, Drive* comes) {
  const auto held = co_await ledger_lock_.acquire("ledger");
  MirrorLedger next = ledger();
  next.add(more);
  disturb();
  if (next == ledger()) co_return Status();
  for (const auto* drives : {&more.stale, &more.stale_single})
    for (const std::string& drive : *drives)
      obs::log("target").warn("drive is stale: names change without it id={}", drive);
  co_return co_await save_ledger(std::move(next), comes);
}

/// Unlike note(), no pass over mirrored buckets is due for it.
Task<Status> Mirror::note_misplaced(std::set<std::string> drives) {
  ++misplacings_;
  const auto lacks_some = [&](const MirrorLedger& ledger) {
    return !std::includes(ledger.misplaced.begin(), ledger.misplaced.end(), drives.begin(),
                          drives.end());
  };
  {
    const MutexLock lock(mutex_);
    if (!lacks_some(ledger_)) co_return Status();
  }
  const auto held = co_await ledger_lock_.acquire("ledger");
  MirrorLedger next = ledger();
  if (!lacks_some(next)) co_return Status();
  next.misplaced.merge(drives);
  obs::log("target").info("names are misplaced drives={}", next.misplaced.size());
  co_return co_await save_ledger(std::move(next));
}

Task<Status> Mirror::misplaces(std::string path) {
  const auto drive = store_.drive_at(path);
  std::string id = drive != nullptr ? drive->id() : id_of_missing(path);
  if (id.empty()) co_return Status();
  co_return co_await note_misplaced({std::move(id)});
}

std::set<std::string> Mirror::all_ids() const {
  std::set<std::string> out;
  for (const auto& drive : store_.drives()) out.insert(drive->id());
  for (const auto& [path, why] : store_.missing())
    if (std::string id = id_of_missing(path); !id.empty()) out.insert(std::move(id));
  return out;
}

Task<Status> Mirror::misplaces_all() { co_return co_await note_misplaced(all_ids()); }

Task<Status> Mirror::save_remembered() {
  const auto held = co_await ledger_lock_.acquire("ledger");
  if (ledger().misplaced.empty()) co_return Status();
  co_return co_await save_ledger(ledger());
}

Task<Status> Mirror::all_in_place(std::uint64_t misplacings) {
  const auto held = co_await ledger_lock_.acquire("ledger");
  const auto drives = store_.drives();
  const bool all_there = store_.missing().empty() &&
                         std::all_of(drives.begin(), drives.end(),
                                     [](const auto& drive) { return drive->in_service(); });
  MirrorLedger next = ledger();
  if (next.misplaced.empty() || !all_there || store_.may_hold_misplaced()) co_return Status();
  {
    // First: a name that is misplaced from here on is noted anew, after this.
    const MutexLock lock(mutex_);
    if (misplacings_.load() != misplacings) co_return Status();
    ledger_.misplaced.clear();
  }
  next.misplaced.clear();
  CO_TRY_OK(co_await save_ledger(std::move(next)));
  obs::log("target").info("all names are in place");
  co_return Status();
}

Task<Status> Mirror::caught_up(std::set<std::string> drives) {
  const auto held = co_await ledger_lock_.acquire("ledger");
  MirrorLedger next = ledger();
  // One that has just been put out of use misses changes again.
  const std::set<std::string> in_use = stale();
  std::erase_if(drives, [&](const std::string& drive) { return !in_use.contains(drive); });
  for (const std::string& drive : drives) {
    next.stale.erase(drive);
    next.stale_single.erase(drive);
  }
  CO_TRY_OK(co_await save_ledger(std::move(next)));
  for (const std::string& drive : drives)
    obs::log("target").info("drive has caught up id={}", drive);
  co_return Status();
}

}  // namespace tarn::target
