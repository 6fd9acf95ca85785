// Drives that are let go of when they are out, and come back by themselves (docs/decisions/020).

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drives/drive_admin.h"

namespace tarn::target {
namespace {

using By = ResilverRequest::By;

spdlog::logger& drive_return_log() { return obs::log("target"); }

/// True if the drive with this id lies at `path`. Blocks.
Result<bool> lies_at(const std::string& path, const std::string& id) {
  const auto files = io::FileSystem::open(path);
  if (!files) return false;
  TRY(const auto identity, read_identity(**files));
  if (!identity) return false;  // the path below a mount point
  if (identity->drive == id) return true;
  return fail(Errc::conflict, "another drive (id {}) lies there in place of drive {}",
              identity->drive, id);
}

}  // namespace

Task<void> DriveAdmin::tend_away() {
  for (const auto& drive : store_.drives()) {
    // Drives that an operator has put out of service, or that are being emptied, are his decision.
    if (!drive->is_lost() || drive->disabled() || drive->draining()) continue;
    static_cast<void>(co_await let_go(drive));  // during another change of drives: the next time
  }
  std::map<std::string, std::shared_ptr<Away>> all;
  {
    const MutexLock lock(mutex_);
    all = away_;
  }
  for (auto& [path, away] : all) co_await look_for(path, std::move(away));
  co_await evict_away();
}

/// From here on it is missing, as one that is not there at a start. It is closed when its last
/// reader is done (close_detached()).
Task<Status> DriveAdmin::let_go(std::shared_ptr<Drive> drive) {
  const Turn turn(busy_);
  CO_TRY_OK(turn.got());
  const std::string path = drive->path();
  if (store_.drive_at(path) != drive) co_return Status();
  const auto away = std::make_shared<Away>();
  away->id = drive->id();
  away->before = drive;
  away->since = clock_.boot_time();
  away->why = drive->usable().error().message;
  away->waits = !drive->vanished() && SAFETY("safety.mounted_anew");
  if (away->waits) {
    auto watch = drive->watch_mount();
    if (!watch)
      drive_return_log().warn(
          "mount not watched, the drive must be attached to come back drive={} err={}", path,
          watch.error().message);
    if (watch) away->watch.emplace(std::move(*watch));
  }
  store_.mirror().loses(*drive);
  store_.lose(*drive, away->why);
  node_.bad_slices.forget();
  {
    const MutexLock lock(mutex_);
    identities_.erase(path);
    lost_.push_back(drive);
    away_[path] = away;
  }
  hooks_.changed();
  drive_return_log().warn("drive let go of drive={} id={} until={}", path, away->id,
                          away->waits ? "it is mounted anew" : "it is there again");
  co_return Status();
}

Task<Result<bool>> DriveAdmin::is_back(std::string path, Away& away) {
  // Reads nothing of a mount that goes on: it may hang.
  if (away.waits && !(away.watch && away.watch->ended())) co_return false;
  away.waits = false;
  co_return co_await threads_.run([&] { return lies_at(path, away.id); });
}

Task<void> DriveAdmin::look_for(std::string path, std::shared_ptr<Away> away) {
  const DriveList known = list();
  const auto wanted = known.apply_to(opener_.options.drives);
  if (std::find(wanted.begin(), wanted.end(), path) == wanted.end()) co_return;
  if (known.disabled.contains(path) || is_closing(path)) co_return;
  const auto back = co_await is_back(path, *away);
  Status taken;
  if (!back)
    taken = fail(back.error());
  else if (*back && !returns_.allows(away->id, clock_.boot_time()))
    taken = fail(Errc::unavailable,
                 "it is there, but was lost and came back {} times within a day: check it, then "
                 "attach it (tarn drive attach)",
                 ReturnBudget::kPerDay);
  else if (*back)
    taken = co_await take_back(path, away);
  // Once, and not with each look.
  const std::string why = taken ? "" : taken.error().message;
  if (why == away->said) co_return;
  const Turn turn(busy_);
  if (!turn.got()) co_return;  // during another change of drives: the next time
  if (!why.empty()) drive_return_log().error("drive not taken back drive={} why={}", path, why);
  away->said = why;
  note_missing(path, *away);
}

/// Reports of a drive that is missing why it is, and what became of what it holds.
void DriveAdmin::note_missing(const std::string& path, const Away& away) {
  std::string why = away.said.empty() ? away.why : away.said;
  if (!store_.evicted_from(path).empty())
    why += "; what upstream has of it counts as evicted, and is fetched to other drives";
  store_.note_missing(path, std::move(why));
}

/// As at a start: what changed here without it has been noted, and what changed at other targets
/// while this one was down the map knows.
Task<Status> DriveAdmin::take_back(std::string path, std::shared_ptr<Away> away) {
  const Turn turn(busy_);
  CO_TRY_OK(turn.got());
  if (store_.drive_at(path) != nullptr) co_return Status();  // attached
  const auto state = view_.state();
  CO_TRY(auto opened,
         co_await threads_.run([&]() -> Result<Opened> { return open_now(path, *state); }));
  if (opened.drive->id() != away->id)
    co_return fail(Errc::conflict, "another drive took its place");
  if (away->before != nullptr) opened.drive->take_errors(away->before->counters());
  CO_TRY_OK(co_await store_.mirror().returns(*opened.drive, std::move(opened.remembered)));
  CO_TRY_OK(co_await store_.mirror().forget_evicted(opened.drive->id()));
  node_.bad_slices.forget();
  CO_TRY_OK(co_await enters(opened.drive, *state));
  returns_.note(away->id, clock_.boot_time());
  node_.resilver.ask(By::drives);
  drive_return_log().info("drive is back drive={} id={}", path, away->id);
  co_return Status();
}

}  // namespace tarn::target
