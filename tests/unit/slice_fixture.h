#pragma once

#include <string>
#include <vector>

#include "ec/slice_format.h"
#include "target/drive/drive.h"
#include "target/drive/slice_ids.h"
#include "tests/unit/drive_fixture.h"
#include "tests/unit/ec_fixture.h"

/// Objects that are cut into slices, for tests of what drives do with these.
namespace tarn::target::testing {

inline const BucketId kSliceBucket{1};

/// Generations of these tests differ in their counters only.
inline Generation gen(std::uint64_t counter) { return {1, 1, counter}; }

/// An object of 2+1 slices of small blocks, and what is needed to seal each of its slices.
struct CutObject {
  static constexpr std::uint64_t kSet = 0x1122334455667788;
  ec::Geometry geometry{2, 1, 512};
  std::string name = "a";
  std::string content;
  std::uint64_t set;
  std::vector<std::string> slices;

  explicit CutObject(std::size_t bytes = 5000, std::uint64_t set_id = kSet)
      : content(ec::testing::random_text(bytes, 7)),
        set(set_id),
        slices(ec::testing::encode_object(geometry, content, 100'000, ec::SetId(set_id))) {}

  [[nodiscard]] SliceKey key(std::uint8_t index) const { return {kSliceBucket, name, set, index}; }
  [[nodiscard]] const std::string& body(std::uint8_t index) const {
    return index == io::kFullCopy ? content : slices.at(index);
  }
  [[nodiscard]] std::string label(std::uint8_t index) const {
    if (index == io::kFullCopy) return {};
    ec::Label out;
    out.slice = {ec::SetId(set), geometry, index};
    out.bucket_id = kSliceBucket;
    out.provider = "ais";
    out.bucket = "b";
    out.object = name;
    out.generation = gen(1);
    out.object_bytes = content.size();
    out.xxh64 = xxh64(content);
    return ec::encode(out).value();
  }
  [[nodiscard]] Drive::SealOrder order(std::uint8_t index, std::uint64_t counter,
                                       bool anew = false) const {
    Drive::SealOrder out;
    out.attribute.bucket_id = kSliceBucket;
    out.attribute.bucket.name = "b";
    out.attribute.name = name;
    io::ObjectRecord& record = out.attribute.record;
    record.kind = io::ObjectRecord::Kind::slice;
    record.generation = gen(counter);
    record.version = 0;
    record.size = content.size();
    record.xxh64 = xxh64(content);
    out.label = label(index);
    record.slice =
        slice_of({ec::SetId(set), geometry, index}, body(index).size() + out.label.size(), gen(1));
    if (index == io::kFullCopy)
      for (std::size_t at = 0; at < content.size(); at += kBlockBytes)
        out.checksums.push_back(crc32c(std::string_view(content).substr(at, kBlockBytes)));
    out.anew = anew;
    return out;
  }
};

inline Task<Result<std::unique_ptr<WorkFile>>> write_body(Drive& drive, std::string body) {
  CO_TRY(auto file, co_await drive.create(body.size(), true));
  auto writing = drive.write(*file, std::as_bytes(std::span(body)), 0);
  CO_TRY_OK(co_await writing.get());
  co_return std::move(file);
}

inline Task<Result<Drive::Sealed>> seal_task(Drive& drive, std::string body,
                                             Drive::SealOrder order) {
  CO_TRY(const auto file, co_await write_body(drive, std::move(body)));
  co_return co_await drive.seal(*file, std::move(order));
}
inline Result<Drive::Sealed> seal(Drive& drive, const CutObject& object, std::uint8_t index,
                                  std::uint64_t counter, bool anew = false) {
  return wait_for(seal_task(drive, object.body(index), object.order(index, counter, anew)));
}

/// All blocks of a slice, or all bytes of a full copy.
inline Task<Result<std::string>> read_slice_task(std::shared_ptr<OpenObject> slice) {
  std::string out;
  std::string block(kBlockBytes, '\0');
  for (std::uint64_t i = 0; i < blocks_of(slice->file_bytes()); ++i) {
    CO_TRY(const auto got, co_await slice->read_block(i, std::as_writable_bytes(std::span(block))));
    out.append(block, 0, got);
  }
  co_return out;
}

/// The counter of the generation that a slice has on a drive; 0: it is not there.
inline std::uint64_t sealed_at(Drive& drive, const SliceKey& key) {
  const auto found = wait_for(drive.find_slice(key)).value();
  return found ? found->generation.counter : 0;
}

}  // namespace tarn::target::testing
