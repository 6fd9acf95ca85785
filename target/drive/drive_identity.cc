#include "target/drive/drive_identity.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "common/base/fail_point.h"
#include "common/base/read_json.h"
#include "common/io/object_attribute.h"

namespace tarn::target {
namespace {

/// The drive set that the identities remember, by uuid. A drive's entry for itself counts most.
std::map<std::string, DrivePlace> remembered(const std::vector<FoundDrive>& found) {
  std::map<std::string, DrivePlace> all;
  for (const FoundDrive& drive : found)
    if (drive.identity)
      all.insert(drive.identity->siblings.begin(), drive.identity->siblings.end());
  for (const FoundDrive& drive : found) {
    if (!drive.identity) continue;
    const auto own = drive.identity->siblings.find(drive.identity->drive);
    if (own != drive.identity->siblings.end()) all[own->first] = own->second;
  }
  return all;
}

Status check_owner(const FoundDrive& drive, const std::string& cluster, const std::string& node) {
  const DriveIdentity& identity = *drive.identity;
  if (identity.format < 1 || identity.format > kSlicesFormat)
    return fail(Errc::conflict, "drive {} has format {}, this program understands at most {}",
                drive.path, identity.format, kSlicesFormat);
  if (identity.cluster != cluster)
    return fail(Errc::conflict,
                "drive {} (id {}) belongs to cluster {}, this is cluster {}: it is refused, not "
                "overwritten. Mount the right drive, or empty this one to use it here",
                drive.path, identity.drive, identity.cluster, cluster);
  if (!node.empty() && identity.node != node)
    return fail(
        Errc::conflict,
        "drive {} (id {}) belongs to target {}, the other drives belong to target {}: it is "
        "refused, not overwritten",
        drive.path, identity.drive, identity.node, node);
  return {};
}

}  // namespace

void to_json(nlohmann::json& out, const DriveIdentity& identity) {
  out = {{"format", identity.format},
         {"cluster", identity.cluster},
         {"drive", identity.drive},
         {"node", identity.node},
         {"path", identity.path}};
  auto& siblings = out["siblings"] = nlohmann::json::object();
  auto& sizes = out["sizes"] = nlohmann::json::object();
  for (const auto& [uuid, place] : identity.siblings) {
    siblings[uuid] = place.path;
    if (place.bytes > 0) sizes[uuid] = place.bytes;
  }
}

void from_json(const nlohmann::json& in, DriveIdentity& identity) {
  in.at("format").get_to(identity.format);
  in.at("cluster").get_to(identity.cluster);
  in.at("drive").get_to(identity.drive);
  in.at("node").get_to(identity.node);
  identity.path = in.value("path", "");
  const auto sizes = in.value("sizes", std::map<std::string, std::uint64_t>());
  identity.siblings.clear();
  for (auto& [uuid, path] : in.value("siblings", std::map<std::string, std::string>())) {
    const auto size = sizes.find(uuid);
    identity.siblings[uuid] = {path, size == sizes.end() ? 0 : size->second};
  }
}

Result<std::optional<DriveIdentity>> read_identity(io::FileSystem& files) {
  auto text = files.read_file(kIdentityFile);
  if (!text && text.error().code == Errc::not_found) return std::optional<DriveIdentity>();
  if (!text) return fail(text.error());
  TRY(auto identity, parse_json<DriveIdentity>(
                         *text, Errc::corrupt,
                         fmt::format("{}/{} cannot be understood", files.root(), kIdentityFile)));
  return std::optional(std::move(identity));
}

Status write_identity(io::FileSystem& files, const DriveIdentity& identity) {
  TRY_OK(files.make_directory(".tarn"));
  TRY_OK(files.sync_directory("."));
  TRY_OK(files.write_file(kIdentityFile, nlohmann::json(identity).dump(2) + "\n"));
  // After the identity: a start that is cut off before it leaves nothing that looks like files of
  // other programs.
  TRY_OK(files.make_directory("data"));
  return files.sync_directory(".");
}

Status rewrite_identity(io::FileSystem& files, DriveIdentity identity) {
  TRY(const auto there, read_identity(files));
  if (!there || there->drive != identity.drive)
    return fail(Errc::unavailable, "another file system is there");
  identity.format = std::max(identity.format, there->format);
  return write_identity(files, identity);
}

Result<FoundDrive> inspect_drive(io::FileSystem& files) {
  FoundDrive found;
  found.path = files.root();
  TRY(found.identity, read_identity(files));
  TRY(const io::Space space, files.space());
  found.bytes = space.total;
  TRY(const auto names, files.list("."));
  for (const std::string& name : names)
    if (name != "lost+found" && name != ".tarn") found.has_files = true;
  return found;
}

Result<DrivePlan> plan_drives(const std::vector<FoundDrive>& found, const std::string& cluster,
                              const std::vector<std::string>& replace,
                              const std::string& new_node_id) {
  DrivePlan plan;
  std::set<std::string> seen;
  for (const FoundDrive& drive : found) {
    if (!drive.identity) continue;
    TRY_OK(check_owner(drive, cluster, plan.node));
    plan.node = drive.identity->node;
    if (!seen.insert(drive.identity->drive).second)
      return fail(Errc::conflict, "drive {} (id {}) is given twice", drive.path,
                  drive.identity->drive);
  }
  const bool new_target = plan.node.empty();
  if (new_target) plan.node = new_node_id;

  // Drives that the target had before: one that is not among those listed is missing, unless it is
  // given up.
  auto siblings = remembered(found);
  bool changed = new_target;
  for (auto at = siblings.begin(); at != siblings.end();) {
    const std::string& path = at->second.path;
    const bool given_up = std::find(replace.begin(), replace.end(), path) != replace.end();
    if (seen.contains(at->first) || !given_up) {
      if (!seen.contains(at->first))
        plan.missing[path] = fmt::format("drive {} (id {}) is not there", path, at->first);
      ++at;
    } else {
      at = siblings.erase(at);
      changed = true;
    }
  }
  for (const FoundDrive& drive : found) {
    if (const auto lost = plan.missing.find(drive.path);
        !drive.identity && lost != plan.missing.end()) {
      lost->second = fmt::format(
          "{}: {}. Mount the drive again; if it is lost for good, start the target once with "
          "--replace-drive {}",
          lost->second,
          drive.unreadable.empty() ? "an empty or foreign file system is in its place"
                                   : drive.unreadable,
          drive.path);
      continue;
    }
    if (!drive.unreadable.empty()) return fail(Errc::not_found, "{}", drive.unreadable);
    if (!drive.identity && drive.has_files)
      return fail(
          Errc::conflict,
          "{} is not a drive of this cluster and not empty: it is refused. Empty it, or give "
          "another directory",
          drive.path);
    DrivePlan::Use use;
    use.path = drive.path;
    use.fresh = !drive.identity;
    use.identity = drive.identity.value_or(
        DriveIdentity{1, cluster, fail_point::identity(16, drive.path), plan.node, drive.path, {}});
    if (use.fresh || use.identity.path != drive.path) changed = true;
    use.identity.path = drive.path;
    DrivePlace& place = siblings[use.identity.drive];
    place = {drive.path, placed_size(place.bytes, drive.bytes)};
    plan.use.push_back(std::move(use));
  }
  for (DrivePlan::Use& use : plan.use) {
    if (use.identity.siblings != siblings) changed = true;
    use.identity.siblings = siblings;
  }
  for (DrivePlan::Use& use : plan.use) use.may_hold_misplaced = changed && !new_target;
  if (plan.use.empty())
    return fail(Errc::conflict, "none of the {} drives can be used", found.size());
  return plan;
}

Status probe_file_system(io::FileSystem& files) {
  const std::string path = ".tarn/probe";
  TRY_OK(files.remove(path));
  TRY(UniqueFd fd, files.create(path));
  const std::string attribute(io::kAttributeBytesMax, 'x');
  if (const Status set = files.set_attribute(fd.get(), attribute); !set)
    return fail(Errc::unsupported,
                "{} cannot be a drive: its file system does not take a user attribute of {} bytes "
                "({}). ext4 and XFS do",
                files.root(), attribute.size(), set.error().message);
  if (const Status reserved = files.preallocate(fd.get(), 4096); !reserved)
    return fail(Errc::unsupported, "{} cannot be a drive: fallocate: {}", files.root(),
                reserved.error().message);
  TRY_OK(files.sync(fd.get()));
  TRY_OK(files.sync_directory(".tarn"));
  return files.remove(path);
}

}  // namespace tarn::target
