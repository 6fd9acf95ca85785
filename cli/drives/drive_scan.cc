#include "cli/drives/drive_scan.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "common/base/read_json.h"
#include "common/base/unique_fd.h"
#include "common/io/object_attribute.h"

namespace tarn::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kFormatMax = 2;

/// A folder name for each bucket: '@' and '#' are in no bucket's name.
std::string folder_of(const api::Bucket& bucket) {
  const bool plain = bucket.provider == "ais" && bucket.ns_uuid.empty() && bucket.ns_name.empty();
  if (plain) return bucket.name;
  return bucket.provider + "@" + bucket.ns_uuid + "#" + bucket.ns_name + "@" + bucket.name;
}

std::optional<std::string> drive_scan_text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// True if the object can be made of these.
bool is_enough(const FoundSet& set) {
  std::set<std::uint8_t> indexes;
  for (const auto& slice : set.slices) indexes.insert(slice.index);
  return !set.full_copies.empty() || indexes.size() >= set.shape.k;
}

}  // namespace

Result<DriveLabel> read_drive_label(const std::string& drive) {
  const std::string path = drive + "/.tarn/drive.json";
  errno = 0;
  const auto text = drive_scan_text_of(path);
  if (!text && (errno == EACCES || errno == EPERM))
    return fail(Errc::forbidden, "{} may not be read", path);
  if (!text)
    return fail(Errc::not_found, "'{}' is no drive of Tarn: it has no .tarn/drive.json", drive);
  const auto identity = nlohmann::json::parse(*text, nullptr, false);
  if (!identity.is_object() || !identity.contains("format") || !identity.contains("cluster"))
    return fail(Errc::corrupt, "{} cannot be understood", path);
  const auto& format = identity["format"];
  if (!format.is_number_integer() || format < 1 || format > kFormatMax)
    return fail(Errc::unsupported, "{} has format {}, this program understands at most {}", path,
                format.dump(), kFormatMax);
  DriveLabel label;
  for (const auto& [key, out] :
       {std::pair("cluster", &label.cluster), std::pair("node", &label.node)})
    if (identity.contains(key) && identity[key].is_string()) *out = identity[key];
  return label;
}

Status DriveScan::check_identity(const std::string& drive) {
  TRY(const DriveLabel label, read_drive_label(drive));
  const std::string& cluster = label.cluster;
  if (cluster_.empty()) cluster_ = cluster;
  if (cluster != cluster_)
    return fail(Errc::conflict,
                "drive {} is of cluster {}, the drives before it are of cluster {}: export them "
                "one cluster at a time",
                drive, cluster, cluster_);
  return {};
}

/// The document may be missing or torn: then the names in the files have to do.
void DriveScan::learn_names(const std::string& drive) {
  const std::string path = drive + "/.tarn/cluster.json";
  const auto text = drive_scan_text_of(path);
  if (!text) return;
  const Status learned = read_json(Errc::corrupt, path + " cannot be understood", [&] {
    const auto bmd = nlohmann::json::parse(*text).at("bmd");
    const auto version = bmd.at("version").get<std::uint64_t>();
    if (version <= names_version_) return;
    std::map<BucketId, std::string> names;
    for (const auto& bucket : bmd.at("buckets"))
      names[BucketId{bucket.at("id").get<std::uint64_t>()}] =
          folder_of(bucket.at("bucket").get<api::Bucket>());
    names_ = std::move(names);
    names_version_ = version;
  });
  if (!learned) problem_(learned.error());
}

Status DriveScan::add(const std::string& drive) {
  TRY_OK(check_identity(drive));
  learn_names(drive);
  std::error_code ec;
  fs::directory_iterator directories(drive + "/data", ec);
  if (ec) return fail(Errc::io, "read {}/data: {}", drive, ec.message());
  for (; !ec && directories != fs::directory_iterator(); directories.increment(ec))
    scan_directory(directories->path());
  if (ec) return fail(Errc::io, "read {}/data: {}", drive, ec.message());
  return {};
}

void DriveScan::scan_directory(const std::string& directory) {
  std::error_code ec;
  fs::directory_iterator files(directory, ec);
  for (; !ec && files != fs::directory_iterator(); files.increment(ec)) take(files->path());
  if (ec) problem_({Errc::io, fmt::format("read {}: {}", directory, ec.message())});
}

void DriveScan::take(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0)
    return problem_(fail_errno(errno, "open " + path).value());
  if (!S_ISREG(info.st_mode)) return problem_({Errc::io, path + " is no regular file"});
  const auto attribute = io::read_attribute(fd.get(), path);
  if (!attribute && attribute.error().code == Errc::not_found) {
    ++unfinished_;
    return;
  }
  if (!attribute)
    return problem_({attribute.error().code, path + ": " + attribute.error().message});
  const io::ObjectRecord& record = attribute->record;
  if (record.kind == io::ObjectRecord::Kind::slice) return keep_slice(path, *attribute);
  const IdAndName key{attribute->bucket_id, attribute->name};
  keep(folder_of(attribute->bucket), attribute->name,
       {path, attribute->bucket_id, record.generation, record.size, record.xxh64,
        record.modified_ns, nullptr});
  if (files_[key].front().generation != record.generation) return;
  coded_.erase(key);
  if (record.coding) coded_[key] = record.coding->set;
}

void DriveScan::keep(const std::string& folder, const std::string& name, FoundFile file) {
  made_as_[file.bucket_id] = folder;
  auto& files = files_[{file.bucket_id, name}];
  if (!files.empty() && file.generation < files.front().generation) return;
  if (!files.empty() && file.generation > files.front().generation) files.clear();
  files.push_back(std::move(file));
}

void DriveScan::keep_slice(const std::string& path, const io::ObjectAttribute& attribute) {
  made_as_[attribute.bucket_id] = folder_of(attribute.bucket);
  const io::ObjectRecord& record = attribute.record;
  SetFiles& set = slices_[{attribute.bucket_id, attribute.name}][record.slice->set];
  set.object = {"",          attribute.bucket_id, record.slice->written,
                record.size, record.xxh64,        record.modified_ns,
                nullptr};
  set.found.shape = *record.slice;
  if (record.slice->index == io::kFullCopy)
    set.found.full_copies.push_back(path);
  else
    set.found.slices.push_back({path, record.slice->index});
}

std::vector<FoundFile> DriveScan::files_of(const SetFiles& set) {
  std::vector<FoundFile> out;
  FoundFile file = set.object;
  for (const std::string& full_copy : set.found.full_copies) {
    file.path = full_copy;
    out.push_back(file);
  }
  if (set.found.slices.empty()) return out;
  auto found = std::make_shared<FoundSet>(set.found);
  std::sort(found->slices.begin(), found->slices.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  file.path = found->slices.front().path;
  file.slices = std::move(found);
  out.push_back(std::move(file));
  return out;
}

std::map<std::string, BucketId> DriveScan::buckets_by_folder() const {
  std::map<std::string, BucketId> out;
  for (const auto& [id, folder] : made_as_)  // in the order of ids: the last one made stays
    if (!names_.contains(id)) out[folder] = id;
  for (const auto& [id, folder] : names_) out[folder] = id;
  return out;
}

std::map<DriveScan::ObjectKey, std::vector<FoundFile>> DriveScan::objects() const {
  std::map<ObjectKey, std::vector<FoundFile>> out;
  for (const auto& [folder, id] : buckets_by_folder()) {
    for (auto at = files_.lower_bound({id, ""}); at != files_.end() && at->first.first == id;
         ++at) {
      const auto set = coded_.find(at->first);
      auto& files = out[{folder, at->first.second}];
      if (set == coded_.end()) {
        files = at->second;
        continue;
      }
      const auto slices = slices_.find(at->first);
      if (slices == slices_.end()) continue;
      const auto its = slices->second.find(set->second);
      if (its != slices->second.end()) files = files_of(its->second);
    }
  }
  return out;
}

std::map<DriveScan::ObjectKey, std::vector<FoundFile>> DriveScan::without_record() const {
  std::map<ObjectKey, std::vector<FoundFile>> out;
  for (const auto& [folder, id] : buckets_by_folder()) {
    for (auto at = slices_.lower_bound({id, ""}); at != slices_.end() && at->first.first == id;
         ++at) {
      if (files_.contains(at->first)) continue;
      const SetFiles* last = nullptr;
      for (const auto& [number, set] : at->second) {
        const bool newer = last == nullptr || last->object.generation < set.object.generation;
        if (is_enough(set.found) && newer) last = &set;
      }
      if (last != nullptr) out[{folder, at->first.second}] = files_of(*last);
    }
  }
  return out;
}

}  // namespace tarn::cli
