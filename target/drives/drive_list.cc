#include "target/drives/drive_list.h"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/base/node_file.h"
#include "common/base/random.h"
#include "common/base/read_json.h"

namespace tarn::target {
namespace {

constexpr const char* kFile = "drives.json";
constexpr const char* kSetFile = "set.json";

}  // namespace

std::vector<std::string> DriveList::apply_to(const std::vector<std::string>& flags) const {
  std::vector<std::string> out;
  for (const std::string& path : flags)
    if (!detached.contains(path)) out.push_back(path);
  for (const std::string& path : attached)
    if (std::find(out.begin(), out.end(), path) == out.end()) out.push_back(path);
  return out;
}

bool DriveList::is_fenced(const std::string& uuid, std::int64_t oldest) const {
  const auto found = gone.find(uuid);
  return found != gone.end() && found->second.since < oldest;
}

bool DriveList::all_in_service(std::int64_t oldest) const {
  const auto fenced = [&](const auto& each) { return is_fenced(each.first, oldest); };
  const auto known = [&](const std::string& path) {
    return std::any_of(gone.begin(), gone.end(),
                       [&](const auto& each) { return each.second.path == path; });
  };
  return disabled.empty() && leaving.empty() && std::all_of(gone.begin(), gone.end(), fenced) &&
         std::all_of(detached.begin(), detached.end(), known);
}

Status check_drive_label(const std::string& label) {
  constexpr std::size_t kCharactersMax = 32;
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (!label.empty() && label.size() <= kCharactersMax &&
      label.find_first_not_of(kAllowed) == std::string::npos)
    return {};
  return fail(Errc::invalid_argument,
              "mountpath_label={}: a label has 1 to {} letters, digits, '.', '_' or '-'", label,
              kCharactersMax);
}

std::uint64_t other_drive_set() { return 1 + random_u64() % 1'000'000'000; }

Result<DriveList> load_drive_list(const std::filesystem::path& directory) {
  TRY(const std::string text, load_node_text(directory, kFile));
  TRY(const std::string set, load_node_text(directory, kSetFile));
  DriveList out;
  const auto subject_of = [&](const char* file) {
    return (directory / file).string() + " cannot be understood";
  };
  if (!text.empty())
    TRY_OK(read_json(Errc::corrupt, subject_of(kFile), [&] {
      const auto in = nlohmann::json::parse(text);
      in.at("attached").get_to(out.attached);
      in.at("detached").get_to(out.detached);
      in.at("disabled").get_to(out.disabled);
      const auto gone = in.value("gone", nlohmann::json::object());
      for (const auto& [uuid, drive] : gone.items())
        out.gone[uuid] = {drive.at("path").get<std::string>(),
                          drive.at("since").get<std::int64_t>()};
      out.labels = in.value("labels", out.labels);  // older files have none
      const auto leaving = in.value("leaving", nlohmann::json::object());
      for (const auto& [path, then] : leaving.items())
        out.leaving[path] = then == "disable" ? DriveList::Then::disable : DriveList::Then::detach;
    }));
  if (!set.empty())
    TRY_OK(read_json(Errc::corrupt, subject_of(kSetFile),
                     [&] { nlohmann::json::parse(set).at("drive_set").get_to(out.drive_set); }));
  return out;
}

Status save_drive_set(const std::filesystem::path& directory, std::uint64_t drive_set) {
  return save_node_text(directory, kSetFile,
                        nlohmann::json{{"drive_set", drive_set}}.dump() + "\n");
}

Status save_drive_list(const std::filesystem::path& directory, const DriveList& list) {
  TRY_OK(save_drive_set(directory, list.drive_set));
  nlohmann::json out{{"attached", list.attached},
                     {"detached", list.detached},
                     {"disabled", list.disabled},
                     {"labels", list.labels}};
  for (const auto& [uuid, drive] : list.gone)
    out["gone"][uuid] = {{"path", drive.path}, {"since", drive.since}};
  for (const auto& [path, then] : list.leaving)
    out["leaving"][path] = then == DriveList::Then::disable ? "disable" : "detach";
  return save_node_text(directory, kFile, out.dump(1) + "\n");
}

}  // namespace tarn::target
