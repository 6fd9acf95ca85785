#include "target/drives/drive_admin.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/api/mirror_props.h"
#include "common/base/fail_point.h"
#include "common/base/pause.h"
#include "common/cluster/state/cluster_file.h"
#include "common/obs/log.h"
#include "target/drive/cluster_history.h"
#include "target/node/node.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr auto kUploadWait = 10s;
constexpr auto kCloseWait = 5s;
constexpr auto kDriveAdminLook = 100ms;
constexpr auto kTurnWait = 10s;  // DriveAdmin documents it
constexpr double kRestSeconds = 1;
constexpr double kRestSecondsLost = 0.1;  // of what does not come to rest for hours, maybe

using By = ResilverRequest::By;

spdlog::logger& drive_admin_log() { return obs::log("target"); }

Error no_such(const std::string& path) {
  return {Errc::not_found, fmt::format("mountpath {} does not exist", path)};
}

/// True if a drive that was just opened came with anything.
bool holds_some(const Drive& drive) {
  return drive.recovery().records > 0 || drive.recovery().tombstones > 0;
}

std::int64_t seconds_of(std::chrono::nanoseconds since_1970) {
  return std::chrono::duration_cast<std::chrono::seconds>(since_1970).count();
}

}  // namespace

DriveAdmin::DriveAdmin(TargetNode& node, const Clock& clock, DriveOpener opener, DriveList list,
                       OpenedDrives::Identities identities,
                       const std::map<std::string, std::string>& ids,
                       std::chrono::nanoseconds evict_after, Hooks hooks)
    : node_(node),
      store_(node.store),
      view_(node.view),
      clock_(clock),
      opener_(std::move(opener)),
      evict_after_(evict_after),
      hooks_(std::move(hooks)),
      list_(std::move(list)),
      identities_(std::move(identities)) {
  if (!identities_.empty()) siblings_ = identities_.begin()->second.siblings;
  for (const auto& [path, why] : store_.missing()) {
    const auto id = ids.find(path);
    if (id == ids.end() || list_.disabled.contains(path)) continue;
    const auto away = std::make_shared<Away>();
    away->id = id->second;
    away->since = clock_.boot_time();
    away->why = why;
    away_[path] = away;
    note_missing(path, *away);
  }
  if (!list_.leaving.empty())
    node_.resilver.ask(By::order);
  else if (store_.may_hold_misplaced())
    node_.resilver.ask(By::drives);
}

DriveList DriveAdmin::list() const {
  const MutexLock lock(mutex_);
  return list_;
}

Result<std::shared_ptr<Drive>> DriveAdmin::find(const std::string& path) const {
  auto drive = store_.drive_at(path);
  if (drive == nullptr) return fail(no_such(path));
  return drive;
}

Task<Status> DriveAdmin::save(DriveList list) {
  const std::uint64_t drive_set = list.drive_set;
  CO_TRY_OK(co_await keep_list(std::move(list)));
  hooks_.other_set(drive_set);
  co_return Status();
}

Task<Status> DriveAdmin::keep_list(DriveList list) {
  CO_TRY_OK(co_await threads_.run(
      [this, &list]() -> Status { return save_drive_list(opener_.options.dir, list); }));
  const MutexLock lock(mutex_);
  list_ = std::move(list);
  co_return Status();
}

/// Other targets have what lies on a drive that goes, and newer than what is on one that comes.
void DriveAdmin::note_change(DriveList& list) const {
  const auto state = view_.state();
  if (std::any_of(state->bmd.buckets.begin(), state->bmd.buckets.end(),
                  [](const auto& each) { return each.second.replica_count().many(); }))
    list.drive_set = other_drive_set();
}

/// Names of mirrored buckets change without a drive that is not in the set.
bool DriveAdmin::any_mirrored() const {
  const auto state = view_.state();
  return std::any_of(state->bmd.buckets.begin(), state->bmd.buckets.end(),
                     [](const auto& each) { return api::copies_of(each.second.props) > 0; });
}

Task<Status> DriveAdmin::wait_for_uploads(Drive& drive) {
  const auto deadline = std::chrono::steady_clock::now() + kUploadWait;
  while (drive.uploads() > 0) {
    if (std::chrono::steady_clock::now() > deadline)
      co_return fail(Errc::unavailable,
                     "{} uploads to drive {} are under way: try again when they "
                     "have ended",
                     drive.uploads(), drive.path());
    co_await pause(kDriveAdminLook);
  }
  co_return Status();
}

Task<Result<DriveAdmin::Turn>> DriveAdmin::take_turn() {
  const auto deadline = std::chrono::steady_clock::now() + kTurnWait;
  while (true) {
    Turn turn(busy_);
    if (turn.got()) co_return turn;
    if (std::chrono::steady_clock::now() > deadline) co_return fail(turn.got().error());
    co_await pause(kDriveAdminLook);
  }
}

/// A drive that was detached just now is closed when its last reader is done.
Task<Status> DriveAdmin::wait_until_closed(std::string path) {
  const auto deadline = std::chrono::steady_clock::now() + kCloseWait;
  while (is_closing(path)) {
    if (std::chrono::steady_clock::now() > deadline)
      co_return fail(
          Errc::conflict,
          "mountpath {} was detached or failed, and requests still read there; try again", path);
    co_await pause(kDriveAdminLook);
  }
  co_return Status();
}

/// Puts the set of drives as it is to be into the identity of each. One that does not take it
/// learns it from the other drives at the next start.
void DriveAdmin::write_identities(const Siblings& siblings) {
  std::map<std::string, DriveIdentity> all;
  {
    const MutexLock lock(mutex_);
    siblings_ = siblings;
    for (auto& [path, identity] : identities_) identity.siblings = siblings;
    all = identities_;
  }
  for (const auto& [path, identity] : all) {
    const auto write = [&]() -> Status {
      // Its format may be raised at this moment: one of us after the other.
      if (const auto drive = store_.drive_at(path)) return drive->keep_identity(identity);
      TRY(const auto files, io::FileSystem::open(path));
      return rewrite_identity(*files, identity);
    };
    if (const Status written = write(); !written)
      drive_admin_log().warn("identity not written drive={} err={}", path, written.error().message);
  }
}

/// First time of which all deletes are remembered, in seconds since 1970.
std::int64_t DriveAdmin::oldest_tombstone() const {
  return seconds_of(clock_.wall_time() - opener_.options.tombstone_keep);
}

/// As a target that was away for that long: what was deleted meanwhile may no longer be known.
Status DriveAdmin::check_not_fenced(const FoundDrive& found) const {
  const MutexLock lock(mutex_);
  if (!found.identity || !list_.is_fenced(found.identity->drive, oldest_tombstone())) return {};
  return fail(Errc::conflict,
              "drive {} (id {}) was detached for longer than target.tombstone_keep: objects on it "
              "may have been deleted since, and would come back. Empty it first (its directories "
              ".tarn and data), or use another one",
              found.path, found.identity->drive);
}

/// On the thread.
Result<DriveAdmin::Opened> DriveAdmin::open_now(const std::string& path,
                                                const cluster::ClusterState& state) {
  std::error_code problem;
  if (!std::filesystem::is_directory(path, problem)) return fail(no_such(path));
  TRY(auto files, io::FileSystem::open(path));
  TRY(FoundDrive found, inspect_drive(*files));
  TRY_OK(check_not_fenced(found));
  std::vector<FoundDrive> all;
  {
    const MutexLock lock(mutex_);
    identities_.erase(path);  // of one that came in vain
    for (const auto& [known, identity] : identities_) all.push_back({known, identity, true});
    // Its knowledge of the other drives is of the time when it went.
    if (found.identity) {
      found.identity->siblings = siblings_;
      found.identity->siblings[found.identity->drive] = {path, 0};
    }
  }
  if (all.empty() && !found.identity)
    return fail(Errc::conflict,
                "all drives of this target are away, and {} has never been one of them: bring one "
                "of them back first",
                path);
  all.push_back(std::move(found));
  TRY(const DrivePlan plan, plan_drives(all, state.uuid, {}, node_.id));
  const auto use = std::find_if(plan.use.begin(), plan.use.end(),
                                [&](const auto& each) { return each.path == path; });
  if (use == plan.use.end()) return fail(Errc::conflict, "{}", plan.missing.at(path));
  TRY_OK(check_history(*files, state));
  Opened opened;
  TRY_OK(read_ledger(*files, opened.remembered));
  opened.remembered.evicted.clear();
  // Other drives may hold older versions of what was deleted here, or it may hold those.
  TRY(opened.drive,
      opener_.open(std::move(files), *use, state, store_.mirror().evicted(use->identity.drive)));
  {
    const MutexLock lock(mutex_);
    identities_[path] = use->identity;
  }
  write_identities(use->identity.siblings);
  return opened;
}

Task<Status> DriveAdmin::attach(std::string path, std::string label, bool moves) {
  CO_TRY(const Turn turn, co_await take_turn());
  if (const auto known = store_.drive_at(path); known != nullptr) {
    if (known->draining() && !known->disabled()) co_return co_await stay(*known);
    co_return fail(Errc::invalid_argument, "mountpath {} is in use already", path);
  }
  CO_TRY_OK(co_await wait_until_closed(path));
  const auto state = view_.state();
  CO_TRY(auto opened,
         co_await threads_.run([&]() -> Result<Opened> { return open_now(path, *state); }));
  DriveList next = list();
  next.attached.insert(path);
  next.detached.erase(path);
  next.leaving.erase(path);
  next.gone.erase(opened.drive->id());
  if (!label.empty()) next.labels[path] = std::move(label);
  note_change(next);
  const auto drive = opened.drive;
  drive->set_disabled(next.disabled.contains(path));
  CO_TRY_OK(co_await save(std::move(next)));
  CO_TRY_OK(co_await store_.mirror().comes(*drive, std::move(opened.remembered),
                                           {any_mirrored(), holds_some(*drive)}));
  CO_TRY_OK(co_await store_.mirror().forget_evicted(drive->id()));
  CO_TRY_OK(co_await enters(drive, *state));
  // Once more: a walk that ended just now may have taken away what comes() has noted.
  CO_TRY_OK(co_await store_.mirror().misplaces_all());
  if (moves) node_.resilver.ask(By::drives);
  drive_admin_log().info("drive attached drive={}", path);
  co_return Status();
}

/// Puts a drive into the set. `seen`: the cluster as it was when it was opened.
Task<Status> DriveAdmin::enters(std::shared_ptr<Drive> drive, const cluster::ClusterState& seen) {
  store_.attach(drive);
  hooks_.in_service(drive);
  // Buckets that were destroyed while it was opened.
  const auto now = view_.state();
  for (const BucketId bucket : now->bmd.dead)
    if (!seen.bmd.dead.contains(bucket)) drive->forget_bucket(bucket);
  drive->save_cluster_state([now] { return cluster::encode_cluster_file(*now); });
  {
    const MutexLock lock(mutex_);
    away_.erase(drive->path());
  }
  hooks_.changed();
  co_return Status();
}

Task<Status> DriveAdmin::detach(std::string path, bool give_up) {
  CO_TRY(const Turn turn, co_await take_turn());
  const auto drive = store_.drive_at(path);
  if (drive == nullptr && !store_.missing().contains(path)) co_return fail(no_such(path));
  if (drive == nullptr && !give_up)
    co_return fail(Errc::conflict, "drive {} is away, and what lies on it would be lost: {}", path,
                   kSayItAgain);
  if (!others_serve(path))
    co_return fail(Errc::conflict, "drive {} is the only one of this target in service", path);
  if (drive != nullptr && !give_up) {
    CO_TRY(const bool leaves, co_await empty_first(*drive, DriveList::Then::detach));
    if (leaves) co_return Status();
  }
  std::optional<Drive::Closing> closing;  // no new file comes while it is looked at
  if (drive != nullptr) {
    closing.emplace(*drive);
    CO_TRY_OK(co_await wait_for_uploads(*drive));
  }
  if (drive != nullptr && !give_up) {  // uploads may have ended meanwhile
    CO_TRY(const bool leaves, co_await empty_first(*drive, DriveList::Then::detach));
    if (leaves) co_return Status();
  }
  co_return co_await take_out(std::move(path), drive, give_up);
}

/// `drive`: null when it is away. Nothing is on its way to it. `holds_some`: objects that no other
/// drive has.
Task<Status> DriveAdmin::take_out(std::string path, std::shared_ptr<Drive> drive, bool holds_some) {
  const bool was_disabled = drive != nullptr && drive->disabled();
  // One that was emptied shows as leaving until it is closed.
  const bool emptied = drive != nullptr && drive->draining() && !holds_some;
  if (drive != nullptr && !emptied) drive->set_disabled(true);
  DriveList next = list();
  Siblings siblings = this->siblings();
  next.attached.erase(path);
  next.disabled.erase(path);
  next.leaving.erase(path);
  next.labels.erase(path);
  next.detached.insert(path);
  for (const auto& [uuid, place] : siblings)
    if (place.path == path) next.gone[uuid] = {path, seconds_of(clock_.wall_time())};
  note_change(next);
  Status saved = co_await store_.mirror().goes(path, {any_mirrored(), holds_some, true});
  // Its names live on the other drives from here on, wherever some lie.
  if (saved && (drive == nullptr || !drive->draining()))
    saved = co_await store_.mirror().misplaces_all();
  const std::uint64_t drive_set = next.drive_set;
  if (saved) saved = co_await keep_list(std::move(next));
  if (!saved) {
    if (drive != nullptr && !emptied) drive->set_disabled(was_disabled);
    co_return saved;
  }
  std::erase_if(siblings, [&](const auto& each) { return each.second.path == path; });
  {
    const MutexLock lock(mutex_);
    identities_.erase(path);
    away_.erase(path);
    if (drive != nullptr) leaving_.push_back(drive);
  }
  CO_TRY_OK(co_await threads_.run([&]() -> Status {
    FAIL_POINT("detach.before_out");
    write_identities(siblings);
    return {};
  }));
  // At once, one after the other. From the first on no answer is authoritative for names that may
  // have gone with the drive. Targets that send them again, as soon as they know, must not hear
  // that they are here still.
  hooks_.other_set(drive_set);
  if (drive != nullptr)
    store_.detach(*drive);
  else
    store_.forget_missing(path);
  hooks_.changed();
  if (store_.may_hold_misplaced()) node_.resilver.ask(By::drives);
  drive_admin_log().warn("drive detached drive={} gives_up={}", path, holds_some);
  co_return Status();
}

Task<Status> DriveAdmin::disable(std::string path, bool force) {
  CO_TRY(const Turn turn, co_await take_turn());
  CO_TRY(const auto drive, find(path));
  if (drive->disabled()) co_return Status();
  if (!force && !others_serve(path))
    co_return fail(Errc::conflict, "drive {} is the only one of this target in service: {}", path,
                   kSayItAgain);
  if (!force) {
    CO_TRY(const bool leaves, co_await empty_first(*drive, DriveList::Then::disable));
    if (leaves) co_return Status();
  }
  const Drive::Closing closing(*drive);  // all acknowledged meanwhile can be read afterwards
  if (!force) {
    CO_TRY_OK(co_await wait_for_uploads(*drive));
    CO_TRY(const bool leaves, co_await empty_first(*drive, DriveList::Then::disable));
    if (leaves) co_return Status();
  }
  co_return co_await put_out(*drive, force, false);
}

/// `emptied`: it was to leave, and stays no name's place.
Task<Status> DriveAdmin::put_out(Drive& drive, bool holds_some, bool emptied) {
  DriveList next = list();
  next.disabled.insert(drive.path());
  if (!emptied) next.leaving.erase(drive.path());
  // Copies are noted with each change that it misses.
  CO_TRY_OK(co_await store_.mirror().goes(drive.path(), {false, holds_some}));
  CO_TRY_OK(co_await save(std::move(next)));
  drive.set_disabled(true);
  // While it was in use, a look that found nothing changed may have taken the mark away.
  CO_TRY_OK(co_await store_.mirror().goes(drive.path(), {false, holds_some}));
  if (!emptied && drive.draining()) CO_TRY_OK(co_await set_draining(drive, false));
  store_.close_idle(drive);
  hooks_.changed();
  drive_admin_log().warn("drive disabled drive={}", drive.path());
  co_return Status();
}

Task<Status> DriveAdmin::enable(std::string path, bool moves) {
  CO_TRY(const Turn turn, co_await take_turn());
  auto drive = store_.drive_at(path);
  DriveList next = list();
  const bool was_away = drive == nullptr && next.disabled.contains(path);
  if (drive == nullptr && !was_away) co_return fail(no_such(path));
  if (was_away) {
    const auto state = view_.state();
    CO_TRY(auto opened,
           co_await threads_.run([&]() -> Result<Opened> { return open_now(path, *state); }));
    drive = opened.drive;
    CO_TRY_OK(co_await store_.mirror().comes(*drive, std::move(opened.remembered),
                                             {any_mirrored(), holds_some(*drive)}));
    CO_TRY_OK(co_await store_.mirror().forget_evicted(drive->id()));
    note_change(next);
  }
  CO_TRY_OK(drive->usable());
  const bool was_leaving = next.leaving.erase(path) > 0;
  const bool was_disabled = next.disabled.erase(path) > 0;
  if (was_disabled || was_leaving) CO_TRY_OK(co_await save(std::move(next)));
  // Other drives may have newer versions of what lies there, and what belongs there from now on.
  if (drive->draining())
    CO_TRY_OK(co_await set_draining(*drive, false));
  else if (was_disabled)
    store_.expect_misplaced();
  drive->set_disabled(false);
  if (was_away) {
    store_.attach(drive);
    hooks_.in_service(drive);
    CO_TRY_OK(co_await store_.mirror().misplaces_all());
  }
  if (was_disabled || was_leaving) {
    store_.mirror().disturb();
    if (moves) node_.resilver.ask(By::drives);
  }
  hooks_.changed();
  drive_admin_log().info("drive enabled drive={}", path);
  co_return Status();
}

Task<Status> DriveAdmin::examine(std::string path) {
  const auto drive = store_.drive_at(path);
  if (drive == nullptr)
    co_return fail(Errc::invalid_argument, "no check of {}: {} is not available", path, path);
  co_return co_await drive->probe();
}

std::set<std::string> DriveAdmin::leaving() const {
  const MutexLock lock(mutex_);
  std::set<std::string> out;
  for (const auto& drive : leaving_) out.insert(drive->path());
  return out;
}

std::map<std::string, std::string> DriveAdmin::labels() const {
  const MutexLock lock(mutex_);
  return list_.labels;
}

bool DriveAdmin::all_in_service() const {
  const MutexLock lock(mutex_);
  return list_.all_in_service(oldest_tombstone());
}

Task<void> DriveAdmin::close_detached() {
  std::vector<std::shared_ptr<Drive>> drives;
  {
    const MutexLock lock(mutex_);
    drives = leaving_;
    drives.insert(drives.end(), lost_.begin(), lost_.end());
  }
  for (const auto& drive : drives) {
    store_.close_idle(*drive);  // a look-up that began before may have kept one
    if (drive->uploads() != 0 || drive->open_objects() != 0 || store_.may_be_asked(*drive))
      continue;
    const double rest = drive->is_lost() ? kRestSecondsLost : kRestSeconds;
    const Status closed = co_await threads_.run([&] { return drive->close(rest); });
    if (!closed) continue;
    const MutexLock lock(mutex_);
    std::erase(leaving_, drive);
    std::erase(lost_, drive);
  }
}

DriveAdmin::Siblings DriveAdmin::siblings() const {
  const MutexLock lock(mutex_);
  return siblings_;
}

bool DriveAdmin::is_closing(const std::string& path) const {
  const auto has_it = [&](const auto& drive) { return drive->path() == path; };
  const MutexLock lock(mutex_);
  return std::any_of(leaving_.begin(), leaving_.end(), has_it) ||
         std::any_of(lost_.begin(), lost_.end(), has_it);
}

std::vector<std::string> DriveAdmin::paths() const {
  const MutexLock lock(mutex_);
  return list_.apply_to(opener_.options.drives);
}

}  // namespace tarn::target
