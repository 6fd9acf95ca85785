#include "target/coded/slice_orders.h"

#include "common/base/check.h"
#include "target/drive/slice_ids.h"

namespace tarn::target {

namespace {

Result<std::string> label_of(const io::ObjectAttribute& object, const ec::SliceId& slice,
                             const Generation& written) {
  ec::Label label;
  label.slice = slice;
  label.bucket_id = object.bucket_id;
  label.provider = object.bucket.provider;
  label.ns_uuid = object.bucket.ns_uuid;
  label.ns_name = object.bucket.ns_name;
  label.bucket = object.bucket.name;
  label.object = object.name;
  label.generation = written;
  label.object_bytes = object.record.size;
  label.xxh64 = object.record.xxh64;
  return ec::encode(label);
}

}  // namespace

Result<SliceSeal> seal_order(const io::ObjectAttribute& object, const ec::SliceId& slice,
                             const Generation& written, const Generation& named_by,
                             SliceToken token) {
  const io::ObjectRecord& version = object.record;
  SliceSeal seal;
  seal.token = token;
  std::uint64_t body = version.size;
  if (slice.index != io::kFullCopy) {
    TARN_CHECK(slice.index < slice.geometry.slices());
    TRY(const auto layout, ec::Layout::of(slice.geometry, version.size));
    body = layout.blocks_bytes();
    TRY(seal.label, label_of(object, slice, written));
  }
  seal.attribute.bucket_id = object.bucket_id;
  seal.attribute.bucket = object.bucket;
  seal.attribute.name = object.name;
  io::ObjectRecord& record = seal.attribute.record;
  record.kind = io::ObjectRecord::Kind::slice;
  record.generation = named_by;
  record.version = 0;
  record.size = version.size;
  record.xxh64 = version.xxh64;
  record.modified_ns = version.modified_ns;
  record.slice = slice_of(slice, body + seal.label.size(), written);
  return seal;
}

}  // namespace tarn::target
