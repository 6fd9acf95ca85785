// Changing the metadata of a published object, and what unfinished files need besides being
// written: what stands in drive_write.cc is the way of ordinary PUTs.

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "target/drive/drive.h"

namespace tarn::target {

/// Notes for every start to come that attributes in this directory may be newer than the index.
/// Once a directory, for ever: an index that loses its tail loses the newer record, too.
Status Drive::note_patched(std::uint32_t directory) {
  const MutexLock lock(patched_mutex_);
  if (patched_.contains(directory)) return {};
  TRY_OK(files_->make_directory(kPatchedDirectory));
  TRY_OK(sync_directory(".tarn"));
  const std::string note = fmt::format("{}/{:08x}", kPatchedDirectory, directory);
  if (const auto there = files_->open_for_read(note); !there) {
    if (there.error().code != Errc::not_found) return fail(there.error());
    TRY(const UniqueFd made, files_->create(note));
  }
  TRY_OK(sync_directory(kPatchedDirectory));
  patched_.insert(directory);
  return {};
}

/// Replaces the attribute of a published file, durably. State that a crash leaves after each step:
Status Drive::patch_file(int fd, const io::ObjectAttribute& attribute) {
  TRY_OK(note_patched(attribute.record.file.directory));
  // The old metadata, and a note that makes the next start look.
  FAIL_POINT("patch.before_attribute");
  TRY_OK(files_->set_attribute(fd, io::encode(attribute)));
  // The file system's journal has one or the other; the start takes what it finds.
  FAIL_POINT("patch.before_fsync");
  if (SAFETY("safety.fsync_file")) TRY_OK(sync_or_take_out(fd));
  return {};
}

/// Updates the index.
Status Drive::commit_patch(const std::function<IndexBatch()>& batch) {
  // The new metadata: the start finds a higher generation in the file than in the index.
  FAIL_POINT("patch.before_index");
  const Status committed = commit_with_room(batch);
  if (!committed)
    if (const Status error = index_->background_error(); !error) note_index_error(error.error());
  return committed;
}

Status Drive::patch_now(const io::ObjectAttribute& attribute) {
  TARN_CHECK(attribute.record.kind == io::ObjectRecord::Kind::object && !attribute.record.slice);
  if (const std::size_t bytes = io::encode(attribute).size(); bytes > io::kAttributeBytesMax)
    return fail(Errc::invalid_argument,
                "name and metadata of {} take {} bytes, a file can carry {}: use less metadata",
                attribute.name, bytes, io::kAttributeBytesMax);
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  const io::FileName& file = attribute.record.file;
  TRY_OK(settle(file));
  TRY(const UniqueFd fd, files_->open_for_read(file.path()));
  TRY_OK(patch_file(fd.get(), attribute));
  TRY_OK(commit_patch([&] {
    IndexBatch batch;
    batch.put_record(attribute.bucket_id, attribute.name, attribute.record);
    return batch;
  }));
  FAIL_POINT("patch.before_reply");
  return {};
}

Task<Status> Drive::patch(io::ObjectAttribute attribute) {
  auto work = [&, this] { return patch_now(attribute); };
  co_return co_await threads_->run(work);
}

Task<Result<io::ObjectAttribute>> Drive::attribute_of(std::shared_ptr<OpenObject> object) {
  auto work = [&, this]() -> Result<io::ObjectAttribute> {
    TRY_OK(usable());
    return io::read_attribute(object->fd(), object->record().file.path());
  };
  co_return co_await threads_->run(work);
}

Task<Status> Drive::save_mirror_ledger(std::string json, std::string also) {
  auto work = [&, this]() -> Status {
    TRY_OK(usable());
    if (!also.empty()) {
      TRY(const auto directory, io::FileSystem::open(also));
      TRY_OK(directory->write_file("mirror.json", json));
    }
    return files_->write_file(".tarn/mirror.json", json);
  };
  co_return co_await threads_->run(work);
}

Task<Status> Drive::read_back(WorkFile& file, std::span<std::byte> into, std::uint64_t offset) {
  auto work = [&, this]() -> Status {
    TRY_OK(usable());
    return files_->read(file.fd_.get(), into, offset);
  };
  co_return co_await threads_->run(work);
}

Task<Status> Drive::truncate(WorkFile& file, std::uint64_t size) {
  if (file.write_behind_) CO_TRY_OK(co_await file.write_behind_->cut(size));
  auto work = [&, this]() -> Status {
    TRY_OK(usable());
    TARN_CHECK(!file.published_);
    file.written_back_ = std::min(file.written_back_, size);
    TRY_OK(files_->truncate(file.fd_.get(), size));
    file.end_ = std::min(file.end_, size);
    return {};
  };
  co_return co_await threads_->run(work);
}

}  // namespace tarn::target
