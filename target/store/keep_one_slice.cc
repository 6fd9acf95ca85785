// Removal of all but one of the copies of a slice that lies on several drives of this target. One
// of them was away when it was made again. A crash before the last has gone leaves two, of which
// the next look leaves one.

#include <algorithm>
#include <numeric>
#include <tuple>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/read_through.h"
#include "target/store/object_store.h"
#include "target/store/slices_here.h"

namespace tarn::target {

std::vector<std::size_t> best_to_keep(std::span<const DriveView> views) {
  std::vector<std::size_t> out(views.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  const auto standing = [&](std::size_t i) {
    return std::tuple(!views[i].takes, views[i].slices, views[i].room != DriveView::Room::free, i);
  };
  std::sort(out.begin(), out.end(),
            [&](std::size_t a, std::size_t b) { return standing(a) < standing(b); });
  return out;
}

Task<Result<std::size_t>> SlicesHere::keep_one(ObjectName name, SliceKey key, Toll toll) {
  const auto writing = being_written(key);
  std::vector<std::shared_ptr<Drive>> drives;
  std::vector<DriveView> views;
  std::vector<io::FileName> files;
  for (const auto& drive : in_order(name.uname)) {
    if (!drive->in_service()) continue;
    CO_TRY(const auto record, co_await drive->find_slice(key));
    if (!record) continue;
    const DriveView seen = co_await view(*drive, key, Wanted(), writing);
    drives.push_back(drive);
    views.push_back(seen);
    files.push_back(record->file);
  }
  TARN_CHECK(views.size() == drives.size() && files.size() == drives.size());
  if (drives.size() < 2) co_return std::size_t{0};
  Error last{Errc::corrupt, ""};
  for (const std::size_t at : best_to_keep(views)) {
    Drive& drive = *drives[at];
    if (!SAFETY("safety.double_read")) co_return co_await keep_on(drive, key, files[at]);
    const auto file = co_await read_slice_through(drive, key, toll);
    if (file) co_return co_await keep_on(drive, key, *file);
    last = file.error();
    if (last.code != Errc::corrupt && last.code != Errc::io) break;
    obs::log("target").warn("one of two slices cannot be read object={} slice={} drive={} err={}",
                            key.name, key.index, drive.path(), last.message);
  }
  co_return fail(std::move(last));
}

/// On `drive`, where it was read through as this file.
Task<Result<std::size_t>> SlicesHere::keep_on(Drive& drive, SliceKey key, io::FileName file) {
  const auto held = co_await lock(key);
  CO_TRY(const auto now, co_await drive.find_slice(key));
  CO_TRY(const auto found, co_await find_all(key));
  const bool same = now && now->file == file && !found.empty();
  if (!same) co_return std::size_t{0};
  // A record that names the newest of them finds that generation here. The raise also asks the
  // drive once more whether it is what it was.
  const Generation newest = found.front().record.generation;
  CO_TRY(const bool there, co_await drive.raise_slice(key, newest));
  if (!there) co_return std::size_t{0};
  CO_FAIL_POINT("slice.before_drop_double");
  co_return co_await drop_others(key, newest, &drive);
}

}  // namespace tarn::target
