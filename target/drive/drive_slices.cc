// Slices of objects on this drive (docs/decisions/019-coded-objects.md): slices and full copies
// whose record, which decides if they count, lies elsewhere. A slice is sealed, and from then on
// durable and readable, until it is dropped.

#include <algorithm>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/drive.h"
#include "target/drive/run_in_turn.h"
#include "target/drive/slice_ids.h"

namespace tarn::target {
namespace {

constexpr int kDriveSlicesOpenAttemptsMax = 16;

/// `corrupt` unless a slice's label matches its record and its key.
Status check_label(const ec::Label& label, const SliceKey& key, const io::ObjectRecord& record) {
  const bool same = label.slice == slice_id_of(*record.slice) && label.bucket_id == key.bucket &&
                    label.object == key.name && label.generation == record.slice->written &&
                    label.object_bytes == record.size && label.xxh64 == record.xxh64;
  if (same) return {};
  return fail(Errc::corrupt, "the label is that of slice {} of {} in set {:016x}, not of slice {}",
              label.slice.index, label.object, ec::raw(label.slice.set), key.index);
}

/// The bytes that must have been written before a slice is sealed, when the order is one that can
/// be carried out. The file's length is that of its blocks and its label, and the label is this
/// slice's.
Result<std::uint64_t> body_bytes(const Drive::SealOrder& order) {
  const io::ObjectRecord& record = order.attribute.record;
  if (record.kind != io::ObjectRecord::Kind::slice || !record.slice)
    return fail(Errc::invalid_argument, "only a slice is sealed");
  const io::Slice& slice = *record.slice;
  TRY_OK(io::check(slice));
  if (slice.index == io::kFullCopy) {
    if (slice.file_bytes == record.size && order.label.empty() &&
        order.checksums.size() == blocks_of(record.size))
      return record.size;
    return fail(Errc::invalid_argument,
                "a full copy of {} bytes with {} checksums, the object has {}", slice.file_bytes,
                order.checksums.size(), record.size);
  }
  const auto label = ec::read_label(std::as_bytes(std::span(order.label)), slice.file_bytes);
  if (!label) return fail(Errc::invalid_argument, "{}", label.error().message);
  if (const Status same = check_label(*label, key_of(order.attribute), record); !same)
    return fail(Errc::invalid_argument, "{}", same.error().message);
  return slice.file_bytes - order.label.size();
}

}  // namespace

/// The order is that of publish.cc; the label is the last of the bytes. A crash leaves a file:
/// before the attribute is set one that the next start removes, from then on one that it takes for
/// the slice.
Result<Drive::Sealed> Drive::seal_now(WorkFile& file, SealOrder& order) {
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  io::ObjectAttribute& attribute = order.attribute;
  attribute.record.file = file.name_;
  TARN_CHECK(!file.published_);
  TRY(const std::uint64_t body, body_bytes(order));
  TRY(const std::uint64_t written, files_->size(file.fd_.get()));
  if (written != body)
    return fail(Errc::invalid_argument, "{} bytes of a slice were written, it is to have {}",
                written, body);
  if (io::encode(attribute).size() > io::kAttributeBytesMax)
    return fail(Errc::invalid_argument, "the names of {} are too long for a file's attribute",
                attribute.name);
  const SliceKey key = key_of(attribute);
  TRY(const auto old, index_->find_slice(key));
  if (old && old->generation > attribute.record.generation) return Sealed::had_newer;
  if (old && old->generation == attribute.record.generation && !order.anew) return Sealed::had_it;
  TRY_OK(raise_format());
  if (const Status labelled =
          files_->write(file.fd_.get(), std::as_bytes(std::span(order.label)), body);
      !labelled) {
    note_write_error(labelled.error());
    return fail(labelled.error());
  }
  if (const Status durable = write_durably({{file.fd_.get(), attribute}}); !durable)
    return fail(take_back(file, durable).error());
  if (const Status committed = commit_slice(file, order, key, old); !committed)
    return fail(take_back(file, committed).error());
  note_sealed(file, order, old);
  return Sealed::done;
}

Status Drive::commit_slice(const WorkFile& file, const SealOrder& order, const SliceKey& key,
                           const std::optional<io::ObjectRecord>& old) {
  FAIL_POINT("put.before_index");
  TARN_CHECK(order.attribute.record.file == file.name_);
  IndexBatch batch;
  batch.put_slice(key, order.attribute.record);
  if (key.index == io::kFullCopy) batch.put_block_checksums(file.name_, order.checksums);
  if (old) {
    // Holders of the slice's lock alone change it, so it is still what seal_now() found.
    TARN_CHECK(old->generation <= order.attribute.record.generation);
    TARN_CHECK(old->file != file.name_);
    batch.put_replaced(key.bucket, key.name, old->file);
    batch.erase_block_checksums(old->file);
  }
  return index_->commit(std::move(batch));
}

void Drive::note_sealed(WorkFile& file, const SealOrder& order,
                        const std::optional<io::ObjectRecord>& old) {
  const io::ObjectAttribute& attribute = order.attribute;
  file.published_ = true;
  file.fd_.reset();
  cache_policy_->note_stored(attribute.record.file_bytes());
  if (old) {
    cache_policy_->note_removed(old->file_bytes());
    threads_->post([this, bucket = attribute.bucket_id, name = attribute.name,
                    replaced = old->file] { reap(bucket, name, replaced); });
  }
  remove_if_forgotten(file.name_, attribute.bucket_id);
}

Task<Result<Drive::Sealed>> Drive::seal(WorkFile& file, SealOrder order) {
  if (file.write_behind_) CO_TRY_OK(co_await file.write_behind_->finish(file.fd_.get()));
  auto work = [&, this] { return seal_now(file, order); };
  co_return co_await threads_->run(work);
}

/// Patches as patch_now(), which documents what a crash leaves.
Result<bool> Drive::raise_slice_now(const SliceKey& key, const Generation& generation) {
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  TRY(const auto present, index_->find_slice(key));
  if (!present) return false;
  if (present->generation >= generation) return true;
  TRY(const UniqueFd fd, files_->open_for_read(present->file.path()));
  TRY(auto attribute, io::read_attribute(fd.get(), present->file.path()));
  if (attribute.record.kind != io::ObjectRecord::Kind::slice || key_of(attribute) != key)
    return fail(Errc::corrupt, "file {} on drive {} says that it is not slice {} of {}",
                present->file.path(), options_.path, key.index, key.name);
  attribute.record = *present;
  attribute.record.generation = generation;
  TRY_OK(patch_file(fd.get(), attribute));
  TRY_OK(commit_patch([&] {
    IndexBatch batch;
    batch.put_slice(key, attribute.record);
    return batch;
  }));
  return true;
}

Task<Result<bool>> Drive::raise_slice(SliceKey key, Generation generation) {
  auto work = [&, this] { return raise_slice_now(key, generation); };
  co_return co_await threads_->run(work);
}

Task<Result<std::optional<io::ObjectRecord>>> Drive::find_slice(SliceKey key) {
  auto work = [&, this]() -> Result<std::optional<io::ObjectRecord>> {
    TRY_OK(usable());
    return index_->find_slice(key);
  };
  co_return co_await threads_->run(work);
}

Task<Result<std::vector<std::pair<SliceKey, io::ObjectRecord>>>> Drive::slices_of(
    BucketId bucket, std::string name, std::uint64_t set) {
  auto work = [&, this]() -> Result<std::vector<std::pair<SliceKey, io::ObjectRecord>>> {
    TRY_OK(usable());
    return index_->slices_of(bucket, name, set);
  };
  co_return co_await threads_->run(work);
}

/// The record of a slice with its file open; nothing when there is none.
Result<std::optional<Drive::SliceFile>> Drive::open_slice_file(const SliceKey& key) {
  for (int attempt = 0; attempt < kDriveSlicesOpenAttemptsMax; ++attempt) {
    TRY_OK(usable());
    TRY(auto record, index_->find_slice(key));
    if (!record) return std::optional<SliceFile>();
    auto fd = files_->open_for_read(record->file.path());
    // Replaced or dropped between the two lines above.
    if (!fd && fd.error().code == Errc::not_found) continue;
    if (!fd) {
      if (fd.error().code == Errc::io) ++counters_.read_errors;
      return fail(fd.error());
    }
    TRY(const std::uint64_t size, files_->size(fd->get()));
    if (size != record->file_bytes())
      return fail(Errc::corrupt, "file {} of slice {} of {} on drive {} has {} bytes instead of {}",
                  record->file.path(), key.index, key.name, options_.path, size,
                  record->file_bytes());
    return std::optional(SliceFile{std::move(*record), std::move(*fd)});
  }
  return fail(Errc::corrupt,
              "the file of slice {} of {} on drive {} is gone though its entry is "
              "there",
              key.index, key.name, options_.path);
}

Result<std::shared_ptr<OpenObject>> Drive::open_slice_now(const SliceKey& key) {
  TRY(auto found, open_slice_file(key));
  if (!found) return std::shared_ptr<OpenObject>();
  io::ObjectRecord& record = found->record;
  if (key.index == io::kFullCopy) {
    record.kind = io::ObjectRecord::Kind::object;
    record.slice.reset();
    TRY(auto checksums, checksums_of(record));
    auto verified = verified_files_.of(record.file, record.size);
    return std::make_shared<OpenObject>(*this, std::move(record), std::move(found->fd),
                                        std::move(checksums), std::move(verified));
  }
  const auto layout = ec::Layout::of(geometry_of(*record.slice), record.size);
  if (!layout || layout->blocks_bytes() > record.file_bytes())
    return fail(Errc::corrupt, "the entry of slice {} of {} on drive {} contradicts itself",
                key.index, key.name, options_.path);
  auto verified = verified_files_.of(record.file, layout->blocks_bytes());
  return std::make_shared<OpenObject>(*this, std::move(record), std::move(found->fd), *layout,
                                      std::move(verified));
}

Task<Result<std::shared_ptr<OpenObject>>> Drive::open_slice(SliceKey key) {
  auto work = [&, this] { return open_slice_now(key); };
  co_return co_await threads_->run(work, io::DriveThreads::Order::fresh);
}

Result<std::string> Drive::slice_label_now(const SliceKey& key) {
  TRY(const auto slice, open_slice_now(key));
  if (!slice || key.index == io::kFullCopy)
    return fail(Errc::object_not_found, "slice {} of {} is not on drive {}", key.index, key.name,
                options_.path);
  const io::ObjectRecord& record = slice->record();
  const auto refuse = [&](const std::string& why) {
    ++counters_.corrupt_blocks;
    obs::log("drive").error("label is not what was stored drive={} file={} err={}", options_.path,
                            record.file.path(), why);
    return fail(Errc::corrupt, "file {} on drive {}: {}", record.file.path(), options_.path, why);
  };
  const std::uint64_t bytes = record.file_bytes() - slice->file_bytes();
  if (bytes > ec::kLabelBytesMax) return refuse(fmt::format("{} bytes follow its blocks", bytes));
  std::string text(bytes, '\0');
  TRY_OK(read_file(slice->fd(), record.file, std::as_writable_bytes(std::span(text)),
                   slice->file_bytes()));
  const auto label = ec::read_label(std::as_bytes(std::span(text)), record.file_bytes());
  if (!label) return refuse(label.error().message);
  if (const Status same = check_label(*label, key, record); !same)
    return refuse(same.error().message);
  return text;
}

Task<Result<std::string>> Drive::slice_label(SliceKey key) {
  auto work = [&, this] { return slice_label_now(key); };
  co_return co_await run_in_turn(*turns_, *threads_, work);
}

/// State that a crash leaves after each step:
Result<bool> Drive::drop_slice_now(const SliceKey& key, const Generation& up_to) {
  TRY_OK(usable());
  TRY_OK(files_->check_mounted());
  TRY(const auto present, index_->find_slice(key));
  if (!present) return false;
  if (present->generation > up_to && SAFETY("safety.drop_judged")) return false;
  const io::FileName file = present->file;
  FAIL_POINT("slice.before_drop");
  // The entry goes first: a file without one is found by the next start, which asks again; an entry
  // without a file would be a lie.
  TRY_OK(commit_with_room([&] {
    IndexBatch batch;
    batch.erase_slice(key);
    batch.put_replaced(key.bucket, key.name, file);
    return batch;
  }));
  cache_policy_->note_removed(present->file_bytes());
  FAIL_POINT("slice.before_unlink");
  TRY_OK(files_->remove(file.path()));
  TRY_OK(sync_directory(file.directory_path()));
  IndexBatch clean;
  clean.erase_replaced(key.bucket, key.name, file);
  clean.erase_block_checksums(file);
  static_cast<void>(index_->commit_lazily(std::move(clean)));  // a restart does it as well
  return true;
}

Task<Result<bool>> Drive::drop_slice(SliceKey key, Generation up_to) {
  auto work = [&, this] { return drop_slice_now(key, up_to); };
  co_return co_await threads_->run(work);
}

Task<Status> Drive::walk_slices(BucketId bucket, std::optional<SliceKey> after,
                                Index::SliceVisitor visit) {
  auto work = [&, this]() -> Status {
    TRY_OK(usable());
    return index_->list_slices(bucket, after, visit);
  };
  co_return co_await run_in_turn(*turns_, *threads_, work, TurnFor::background);
}

Task<Result<bool>> Drive::has_slices() {
  auto work = [&, this]() -> Result<bool> {
    TRY_OK(usable());
    bool any = false;
    TRY_OK(index_->scan_slices([&](const SliceKey&, const io::ObjectRecord&) {
      any = true;
      return false;
    }));
    return any;
  };
  co_return co_await run_in_turn(*turns_, *threads_, work);
}

}  // namespace tarn::target
