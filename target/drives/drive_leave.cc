// Drives that move what they hold to the other drives before they go.

#include <algorithm>
#include <utility>

#include "common/api/mirror_props.h"
#include "common/obs/log.h"
#include "target/drives/drive_admin.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using By = ResilverRequest::By;

constexpr std::size_t kDriveLeavePageNames = 1000;
constexpr auto kDriveLeaveLookAgain = 1s;

spdlog::logger& drive_leave_log() { return obs::log("target"); }

/// Bytes that drives other than `leaves` take; those on one file system count once.
std::uint64_t room_elsewhere(const ObjectStore& store, const Drive& leaves) {
  std::map<std::string, std::uint64_t> rooms;
  const double share = store.space_limits().out_of_space / 100;
  for (const auto& drive : store.drives()) {
    if (drive.get() == &leaves || !drive->in_service() || !drive->takes_files()) continue;
    const io::Space space = drive->space();
    const auto most = static_cast<std::uint64_t>(static_cast<double>(space.total) * share);
    const std::uint64_t used = space.total - space.free;
    rooms[drive->mount().id.empty() ? drive->path() : drive->mount().id] =
        most > used ? most - used : 0;
  }
  std::uint64_t sum = 0;
  for (const auto& [id, room] : rooms) sum += room;
  return sum;
}

}  // namespace

/// Objects that no other drive has.
Task<Status> DriveAdmin::count_spread(Drive& drive, const cluster::BucketRecord& bucket,
                                      Held& held) {
  std::string after;
  for (bool more = true; more;) {
    CO_TRY(const auto page,
           co_await drive.list(bucket.id, "", std::move(after), kDriveLeavePageNames));
    for (const auto& entry : page.entries) {
      if (entry.record.kind != io::ObjectRecord::Kind::object) continue;
      ObjectName name = name_in(bucket, entry.name);
      CO_TRY(const bool elsewhere, co_await store_.mirror().is_elsewhere(std::move(name), drive,
                                                                         entry.record.generation));
      if (elsewhere) continue;
      ++held.objects;
      held.bytes += entry.record.file_bytes();
    }
    more = page.more && !page.entries.empty();
    after = more ? page.entries.back().name : std::string();
  }
  co_return Status();
}

Task<Status> DriveAdmin::count_slices(Drive& drive, BucketId bucket, Held& held) {
  const auto visit = [&held](const SliceKey&, const io::ObjectRecord& record) {
    ++held.slices;
    held.bytes += record.file_bytes();
    return true;
  };
  co_return co_await drive.walk_slices(bucket, std::nullopt, visit);
}

/// Objects of buckets that there are, and slices.
Task<Result<DriveAdmin::Held>> DriveAdmin::count(Drive& drive) {
  Held held;
  const auto state = view_.state();
  for (const auto& [name, bucket] : state->bmd.buckets) {
    CO_TRY_OK(co_await count_slices(drive, bucket.id, held));
    if (api::copies_of(bucket.props) > 0) {
      CO_TRY_OK(co_await count_spread(drive, bucket, held));
      continue;
    }
    const auto visit = [&held](std::string_view, const io::ObjectRecord& record) -> Index::Step {
      if (record.kind == io::ObjectRecord::Kind::object) {
        ++held.objects;
        ++held.single;
        held.bytes += record.file_bytes();
      }
      return {};
    };
    CO_TRY_OK(co_await drive.walk(bucket.id, "", "", visit));
  }
  co_return held;
}

/// True if drives other than the one at `path` are in service and stay.
bool DriveAdmin::others_serve(const std::string& path) const {
  const auto drives = store_.drives();
  return std::any_of(drives.begin(), drives.end(), [&](const auto& each) {
    return each->path() != path && each->in_service() && !each->draining();
  });
}

/// True: there are objects on it that no other drive has, or slices; from here on they move to the
/// other drives.
Task<Result<bool>> DriveAdmin::empty_first(Drive& drive, DriveList::Then then) {
  const auto held = co_await count(drive);
  if (!held)
    co_return fail(Errc::conflict, "what lies on drive {} cannot be counted ({}): {}", drive.path(),
                   held.error().message, kSayItAgain);
  if (held->objects == 0 && held->slices == 0) co_return false;
  CO_TRY_OK(co_await leave(drive, then, *held));
  co_return true;
}

Task<Status> DriveAdmin::leave(Drive& drive, DriveList::Then then, Held held) {
  const std::string slices =
      held.slices > 0 ? fmt::format(" and {} slices of objects", held.slices) : "";
  const std::string what =
      fmt::format("drive {} holds {} objects{} ({} bytes) that lie nowhere else", drive.path(),
                  held.objects, slices, held.bytes);
  if (!drive.in_service())
    co_return fail(Errc::conflict,
                   "{}, and it is out of service: enable it, so that they can move; {}", what,
                   kSayItAgain);
  const std::uint64_t room = room_elsewhere(store_, drive);
  if (room < held.bytes)
    co_return fail(Errc::no_space,
                   "{}, and the other drives of this target take {} bytes only: make room, or "
                   "attach another drive first; {}",
                   what, room, kSayItAgain);
  DriveList next = list();
  const bool known = next.leaving.contains(drive.path());
  next.leaving[drive.path()] = then;
  CO_TRY_OK(co_await save(std::move(next)));
  if (known) co_return Status();
  CO_TRY_OK(co_await set_draining(drive, true));
  store_.mirror().disturb();
  node_.resilver.ask(By::order);
  drive_leave_log().warn("drive is to be emptied drive={} objects={} slices={} bytes={}",
                         drive.path(), held.objects, held.slices, held.bytes);
  co_return Status();
}

/// Changes the place of names, and notes all drives as misplaced before and after it: a resilver
/// that ended in between may have cleared the first note.
Task<Status> DriveAdmin::set_draining(Drive& drive, bool draining) {
  CO_TRY_OK(co_await store_.mirror().misplaces_all());
  store_.set_draining(drive, draining);
  co_return co_await store_.mirror().misplaces_all();
}

/// Keeps a drive that was to leave.
Task<Status> DriveAdmin::stay(Drive& drive) {
  DriveList next = list();
  next.leaving.erase(drive.path());
  CO_TRY_OK(co_await save(std::move(next)));
  CO_TRY_OK(co_await set_draining(drive, false));
  store_.mirror().disturb();
  node_.resilver.ask(By::drives);
  drive_leave_log().info("drive stays drive={}", drive.path());
  co_return Status();
}

Task<void> DriveAdmin::tend_leaving() {
  const DriveList known = list();
  if (known.leaving.empty()) co_return;
  const bool wanted = !node_.resilver.job(BootTime::max()).empty();
  const std::uint64_t ended = node_.resilver.ended();
  if (wanted && std::exchange(walks_seen_, ended) == ended) co_return;
  if (!wanted && clock_.boot_time() < look_again_) co_return;
  look_again_ = clock_.boot_time() + kDriveLeaveLookAgain;
  for (const auto& [path, then] : known.leaving) {
    const auto drive = store_.drive_at(path);
    if (drive == nullptr || drive->disabled()) continue;
    const Status gone = co_await go_if_empty(drive, then);
    if (!gone)
      drive_leave_log().info("drive does not leave yet drive={} why={}", path,
                             gone.error().message);
  }
}

/// Lets a drive go that is empty. New files come to it only by uploads that began before: these end
/// first.
Task<Status> DriveAdmin::go_if_empty(std::shared_ptr<Drive> drive, DriveList::Then then) {
  const Turn turn(busy_);
  CO_TRY_OK(turn.got());
  if (!drive->draining() || drive->disabled()) co_return Status();  // another change was faster
  if (drive->uploads() > 0) co_return fail(Errc::unavailable, "uploads to it are under way");
  CO_TRY(const Held held, co_await count(*drive));
  const bool wanted = !node_.resilver.job(BootTime::max()).empty();
  if (held.single + held.slices > 0 && !wanted) node_.resilver.ask(By::order);
  if (held.objects > held.single) store_.mirror().disturb();
  if (held.objects > 0)
    co_return fail(Errc::unavailable, "{} objects are left on it", held.objects);
  if (held.slices > 0)
    co_return fail(Errc::unavailable, "{} slices of objects are left on it", held.slices);
  if (!others_serve(drive->path()))
    co_return fail(Errc::conflict, "it is the only one of this target in service");
  if (then == DriveList::Then::disable) co_return co_await put_out(*drive, false, true);
  const std::string path = drive->path();
  co_return co_await take_out(path, drive, false);
}

}  // namespace tarn::target
