#include "common/cluster/store/meta_database.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include "common/base/fail_point.h"
#include "common/base/unique_fd.h"
#include "common/cluster/store/acknowledged_mark.h"
#include "common/cluster/store/store_env.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRevision = "revision";
constexpr std::string_view kCommits = "commits";
constexpr std::string_view kFormat = "format";
constexpr std::string_view kFormatText = "1";
constexpr std::size_t kItemHeaderBytes = 24;
constexpr std::string_view kRecover =
    "The cluster map can be brought back from the copies on the drives: see `tarn cluster recover`";

/// RocksDB's own log: warnings go to ours, the rest nowhere, so that no LOG files fill the
/// directory.
class RocksLog final : public rocksdb::Logger {
 public:
  RocksLog() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::string line(1024, '\0');
    const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
    if (length < 0) return;
    line.resize(std::min(line.size() - 1, static_cast<std::size_t>(length)));
    obs::log("meta").warn("rocksdb {}", line);
  }
};

std::string meta_database_encode(std::uint64_t number) {
  std::string out(sizeof number, '\0');
  std::memcpy(out.data(), &number, sizeof number);
  return out;
}

std::uint64_t meta_database_decode(std::string_view bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::string meta_database_encode(const KeyValue& item) {
  return meta_database_encode(static_cast<std::uint64_t>(item.create_revision)) +
         meta_database_encode(static_cast<std::uint64_t>(item.mod_revision)) +
         meta_database_encode(static_cast<std::uint64_t>(item.lease)) + item.value;
}

std::string lease_key(LeaseId id) {
  return "l" + meta_database_encode(static_cast<std::uint64_t>(id));
}

tl::unexpected<Error> corrupt(const fs::path& where, std::string_view what) {
  return fail(Errc::corrupt, "the embedded meta store at {} is damaged: {}. {}", where.string(),
              what, kRecover);
}

/// Error for a status of RocksDB about `path`. A file that is missing inside a database is damage,
/// not an I/O error.
tl::unexpected<Error> failure(const fs::path& path, const rocksdb::Status& status) {
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kNoSpace)
    return fail(Errc::no_space, "{}: {}", path.string(), status.ToString());
  if (status.IsIOError() && !status.IsPathNotFound())
    return fail(Errc::io, "{}: {}", path.string(), status.ToString());
  return corrupt(path, status.ToString());
}

rocksdb::Options options(rocksdb::Env* env) {
  rocksdb::Options out;
  out.env = env;
  out.info_log = std::make_shared<RocksLog>();
  out.paranoid_checks = true;
  out.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  out.write_buffer_size = 1U << 20U;
  out.max_total_wal_size = 4U << 20U;
  out.max_background_jobs = 2;
  out.max_open_files = 64;
  // RocksDB ends the process where there is no thread to be had for opening files.
  out.max_file_opening_threads = 1;
  out.compression = rocksdb::kNoCompression;
  out.stats_dump_period_sec = 0;
  out.stats_persist_period_sec = 0;
  out.skip_stats_update_on_db_open = true;
  return out;
}

struct Loaded {
  MetaDatabase::Contents contents;
  std::uint64_t commits = 0;
};

Status take_entry(std::string_view key, std::string_view value, const fs::path& path, Loaded& out) {
  const bool number = value.size() == sizeof(std::uint64_t);
  if (key.starts_with('k') && value.size() >= kItemHeaderBytes) {
    out.contents.items.push_back({std::string(key.substr(1)),
                                  std::string(value.substr(kItemHeaderBytes)),
                                  static_cast<Revision>(meta_database_decode(value)),
                                  static_cast<Revision>(meta_database_decode(value.substr(8))),
                                  static_cast<LeaseId>(meta_database_decode(value.substr(16)))});
  } else if (key.starts_with('l') && key.size() == 9 && number) {
    out.contents.leases.push_back({static_cast<LeaseId>(meta_database_decode(key.substr(1))),
                                   std::chrono::seconds(meta_database_decode(value))});
  } else if (key == kRevision && number) {
    out.contents.revision = static_cast<Revision>(meta_database_decode(value));
  } else if (key == kCommits && number) {
    out.commits = meta_database_decode(value);
  } else if (key != kFormat || value != kFormatText) {
    return corrupt(path, fmt::format("it has an entry of an unknown kind, '{}'", key));
  }
  return {};
}

Result<Loaded> load(rocksdb::DB& db, const fs::path& path) {
  Loaded out;
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  const std::unique_ptr<rocksdb::Iterator> it(db.NewIterator(read));
  for (it->SeekToFirst(); it->Valid(); it->Next())
    TRY_OK(take_entry(it->key().ToStringView(), it->value().ToStringView(), path, out));
  if (!it->status().ok()) return failure(path, it->status());
  return out;
}

Result<UniqueFd> lock(const fs::path& directory) {
  const fs::path file = directory / "lock";
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail_errno(errno, "open " + file.string());
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno(errno, "lock " + file.string());
    return fail(Errc::conflict,
                "exactly one proxy runs with the embedded store, and another process has {} open",
                directory.string());
  }
  return fd;
}

Status make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory / "db", error);
  if (error) return fail(Errc::io, "create {}: {}", directory.string(), error.message());
  const fs::path parent = fs::absolute(directory).parent_path();
  const UniqueFd fd(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return fail_errno(errno, "fsync " + parent.string());
  return {};
}

}  // namespace

struct MetaDatabase::Impl {
  explicit Impl(const fs::path& directory)
      : path(directory / "db"), mark(directory / "acknowledged") {}

  Status open_mark();
  Status verify();
  Status open_database();

  fs::path path;
  UniqueFd lock;
  AcknowledgedMark mark;
  std::uint64_t acknowledged = 0;
  StoreEnv env;  // outlives the database
  std::unique_ptr<rocksdb::DB> db;
  Loaded loaded;
};

/// Reads the mark, or makes it for a store that is about to be made.
Status MetaDatabase::Impl::open_mark() {
  auto number = mark.open();
  if (!number) {
    if (number.error().code == Errc::corrupt) return corrupt(path, number.error().message);
    return fail(std::move(number).error());
  }
  if (*number) {
    acknowledged = **number;
    return {};
  }
  std::error_code error;
  if (fs::exists(path / "CURRENT", error) || error)
    return corrupt(path, "the file `acknowledged` beside it is missing");
  return mark.create();
}

/// Opens without changing a file: a database that is opened for writing drops all that it could not
/// recover, which an operator might still save.
Status MetaDatabase::Impl::verify() {
  std::error_code error;
  const bool exists = fs::exists(path / "CURRENT", error);
  if (!exists && acknowledged == 0) return {};
  if (!exists) return corrupt(path, "its file CURRENT is missing");
  rocksdb::DB* opened = nullptr;
  const auto status = rocksdb::DB::OpenForReadOnly(options(&env), path.string(), &opened);
  const std::unique_ptr<rocksdb::DB> reader(opened);
  if (!status.ok()) return failure(path, status);
  TRY(const auto found, load(*reader, path));
  if (found.commits < acknowledged)
    return corrupt(path, fmt::format("{} changes were acknowledged, and only {} can be read",
                                     acknowledged, found.commits));
  return {};
}

Status MetaDatabase::Impl::open_database() {
  auto settings = options(&env);
  settings.create_if_missing = acknowledged == 0;
  rocksdb::DB* opened = nullptr;
  const auto status = rocksdb::DB::Open(settings, path.string(), &opened);
  if (!status.ok()) return failure(path, status);
  db.reset(opened);
  TRY(loaded, load(*db, path));
  return {};
}

MetaDatabase::MetaDatabase(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetaDatabase::~MetaDatabase() = default;

Result<std::unique_ptr<MetaDatabase>> MetaDatabase::open(const fs::path& directory) {
  TRY_OK(make_directory(directory));
  auto impl = std::make_unique<Impl>(directory);
  TRY(impl->lock, lock(directory));
  TRY_OK(impl->open_mark());
  TRY_OK(impl->verify());
  TRY_OK(impl->open_database());
  return std::unique_ptr<MetaDatabase>(new MetaDatabase(std::move(impl)));
}

MetaDatabase::Contents MetaDatabase::take_contents() {
  return std::exchange(impl_->loaded.contents, {});
}

Status MetaDatabase::write(const Change& change) {
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  const auto put = [&](std::string_view key, std::string_view value) {
    if (status.ok()) status = batch.Put(key, value);
  };
  const auto remove = [&](std::string_view key) {
    if (status.ok()) status = batch.Delete(key);
  };
  for (const KeyValue& item : change.puts) put("k" + item.key, meta_database_encode(item));
  for (const std::string& key : change.deletes) remove("k" + key);
  for (const LeaseRecord& lease : change.granted)
    put(lease_key(lease.id), meta_database_encode(static_cast<std::uint64_t>(lease.ttl.count())));
  for (const LeaseId id : change.ended) remove(lease_key(id));
  const std::uint64_t commit = impl_->loaded.commits + 1;
  put(kRevision, meta_database_encode(static_cast<std::uint64_t>(change.revision)));
  put(kCommits, meta_database_encode(commit));
  put(kFormat, kFormatText);

  FAIL_POINT("meta.before_commit");
  rocksdb::WriteOptions write;
  write.sync = true;
  if (status.ok()) status = impl_->db->Write(write, &batch);
  if (!status.ok()) return failure(impl_->path, status);
  FAIL_POINT("meta.before_mark");
  TRY_OK(impl_->mark.write(commit));
  impl_->loaded.commits = commit;
  FAIL_POINT("meta.before_reply");
  return {};
}

}  // namespace tarn::cluster
