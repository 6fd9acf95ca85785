#include "cli/drive_scan.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "common/base/unique_fd.h"
#include "common/io/object_attribute.h"

namespace tarn::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;

/// A folder name for each bucket: '@' and '#' are in no bucket's name.
std::string folder_of(const api::Bucket& bucket) {
  const bool plain = bucket.provider == "ais" && bucket.ns_uuid.empty() && bucket.ns_name.empty();
  if (plain) return bucket.name;
  return bucket.provider + "@" + bucket.ns_uuid + "#" + bucket.ns_name + "@" + bucket.name;
}

}  // namespace

Result<DriveLabel> read_drive_label(const std::string& drive) {
  const std::string path = drive + "/.tarn/drive.json";
  errno = 0;
  std::ifstream file(path);
  if (!file && (errno == EACCES || errno == EPERM))
    return fail(Errc::forbidden, "{} may not be read", path);
  if (!file)
    return fail(Errc::not_found, "'{}' is no drive of Tarn: it has no .tarn/drive.json", drive);
  std::ostringstream text;
  text << file.rdbuf();
  const auto identity = nlohmann::json::parse(text.str(), nullptr, false);
  if (!identity.is_object() || !identity.contains("format") || !identity.contains("cluster"))
    return fail(Errc::corrupt, "{} cannot be understood", path);
  if (identity["format"] != kFormat)
    return fail(Errc::unsupported, "{} has format {}, this program understands {}", path,
                identity["format"].dump(), kFormat);
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

Status DriveScan::add(const std::string& drive) {
  TRY_OK(check_identity(drive));
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
  keep({folder_of(attribute->bucket), attribute->name},
       {path, attribute->bucket_id, record.generation, record.size, record.xxh64,
        record.modified_ns});
}

void DriveScan::keep(ObjectKey key, FoundFile file) {
  BucketId& newest = newest_bucket_[key.first];
  if (raw(file.bucket_id) < raw(newest)) return;
  if (raw(file.bucket_id) > raw(newest)) {
    // The files so far are of a bucket of this name that was destroyed before.
    newest = file.bucket_id;
    std::erase_if(objects_, [&](const auto& each) { return each.first.first == key.first; });
  }
  auto& files = objects_[std::move(key)];
  if (!files.empty() && file.generation < files.front().generation) return;
  if (!files.empty() && file.generation > files.front().generation) files.clear();
  files.push_back(std::move(file));
}

}  // namespace tarn::cli
