#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "target/drive/drive.h"

/// A real drive in a directory that goes with the test, and what tests do with it.
namespace tarn::target::testing {

/// A directory on a real file system that goes away with the test.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tarn-drive-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Fails the n-th call of one kind.
class FailingFileSystem final : public io::FileSystem {
 public:
  FailingFileSystem(const std::string& root, UniqueFd fd) : io::FileSystem(root, std::move(fd)) {}
  bool fail_sync = false;
  bool fail_write = false;
  int write_error = ENOSPC;
  std::uint64_t pretend_free = 0;
  Status sync(int fd) override {
    if (fail_sync) return fail_errno(EIO, "fsync");
    return io::FileSystem::sync(fd);
  }
  std::function<void()> on_write;
  Status write(int fd, std::span<const std::byte> bytes, std::uint64_t offset) override {
    if (on_write) on_write();
    if (fail_write) return fail_errno(write_error, "write");
    return io::FileSystem::write(fd, bytes, offset);
  }
  bool fail_write_back = false;
  std::function<void(std::uint64_t offset, std::uint64_t bytes)> on_write_back;
  Status write_back(int fd, std::uint64_t offset, std::uint64_t bytes) override {
    if (on_write_back) on_write_back(offset, bytes);
    if (fail_write_back) return fail_errno(EIO, "write back");
    return io::FileSystem::write_back(fd, offset, bytes);
  }
  bool fail_remove = false;
  Status remove(const std::string& path) override {
    if (fail_remove) return fail_errno(EIO, "unlink");
    return io::FileSystem::remove(path);
  }
  std::function<void()> on_sync_directory;
  Status sync_directory(const std::string& path) override {
    if (on_sync_directory) on_sync_directory();
    return io::FileSystem::sync_directory(path);
  }
  Result<io::Space> space() override {
    TRY(auto now, io::FileSystem::space());
    if (pretend_free != 0) now.free = pretend_free;
    return now;
  }
};

template <class T>
T wait_for(Task<T> task) {
  asio::io_context context;
  auto future = asio::co_spawn(context, std::move(task), asio::use_future);
  context.run();
  return future.get();
}

struct Fixture {
  TemporaryDirectory directory;
  std::optional<IndexMemory> memory;
  FailingFileSystem* files = nullptr;
  std::unique_ptr<Drive> drive;
  std::uint64_t counter = 0;
  cluster::Durability durability = cluster::Durability::full;  // of what put() stores
  std::optional<io::DriveKind> kind;                           // of the next open()
  EvictedBuckets evicted;                                      // of the next open()

  Fixture() { open(); }
  void open(std::set<BucketId> dead = {}, std::vector<std::string> paths = {}) {
    drive.reset();
    memory.emplace(8U << 20U, 8U << 20U);  // as after a restart: nothing is cached
    auto real = io::FileSystem::open(directory.path());
    REQUIRE(real.has_value());
    auto failing = std::make_unique<FailingFileSystem>(
        directory.path(), UniqueFd(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY)));
    files = failing.get();
    Drive::Options options;
    options.path = directory.path();
    options.threads = 2;
    options.dead_buckets = std::move(dead);
    options.evicted = evicted;
    for (std::string& path : paths) options.places.push_back({std::move(path), 0});
    options.buckets[BucketId(1)].name = "b";
    options.kind = kind;
    options.files = std::move(failing);
    auto opened = Drive::open(std::move(options), *memory);
    INFO((opened ? "" : opened.error().message));
    REQUIRE(opened.has_value());
    drive = std::move(*opened);
  }

  Status put(const std::string& name, const std::string& content) {
    return wait_for(put_task(name, content));
  }
  Task<Status> put_task(std::string name, std::string content) {
    CO_TRY(auto file, co_await drive->create(content.size(), true));
    const auto bytes = std::as_bytes(std::span(content));
    CO_TRY_OK(co_await drive->write(*file, bytes, 0).get());
    io::ObjectAttribute attribute;
    attribute.bucket_id = BucketId(1);
    attribute.bucket.name = "b";
    attribute.name = name;
    attribute.record.generation = {1, 1, ++counter};
    attribute.record.file = file->name();
    attribute.record.size = content.size();
    attribute.record.xxh64 = xxh64(content);
    std::vector<std::uint32_t> blocks;
    for (std::size_t at = 0; at < content.size(); at += kBlockBytes)
      blocks.push_back(crc32c(std::string_view(content).substr(at, kBlockBytes)));
    CO_TRY(auto old, co_await drive->find(BucketId(1), name));
    co_return co_await drive->publish(*file, {attribute, blocks, old, false, durability});
  }
  Status remove(const std::string& name) {
    io::ObjectRecord tombstone;
    tombstone.kind = io::ObjectRecord::Kind::tombstone;
    tombstone.generation = {1, 1, ++counter};
    tombstone.modified_ns = system_clock().wall_time().count();
    return wait_for(drive->remove(BucketId(1), name, tombstone, true));
  }
  /// The content, or nothing when there is no such object.
  Result<std::optional<std::string>> get(const std::string& name) {
    return wait_for(get_task(name));
  }
  Task<Result<std::optional<std::string>>> get_task(std::string name) {
    CO_TRY(auto object, co_await drive->open_object(BucketId(1), name));
    if (!object) co_return std::optional<std::string>();
    if (!object->has_checksums()) CO_TRY_OK(co_await drive->adopt(*object));
    std::string content;
    std::string block(kBlockBytes, '\0');
    for (std::uint64_t i = 0; i < blocks_of(object->file_bytes()); ++i) {
      CO_TRY(const auto got,
             co_await object->read_block(i, std::as_writable_bytes(std::span(block))));
      content.append(block, 0, got);
    }
    co_return std::optional(content);
  }
  [[nodiscard]] std::vector<std::filesystem::path> data_files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(directory.path() + "/data"))
      if (entry.is_regular_file()) found.push_back(entry.path());
    return found;
  }
  void quiesce() { REQUIRE(drive->run_idle(5)); }
  void lose_index() {
    drive.reset();
    files = nullptr;
    std::filesystem::remove_all(directory.path() + "/.tarn/index");
  }
};

}  // namespace tarn::target::testing
