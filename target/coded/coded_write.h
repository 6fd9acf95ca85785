#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/cluster/place/slice_plan.h"
#include "ec/encoder.h"
#include "target/coded/slice_lane.h"
#include "target/node/node.h"

namespace tarn::target {

/// A new version of a coded object on its way: bytes come in, and slices go to their holders at the
/// same time. Nothing of it counts before a record names them (docs/decisions/019, "A write"). For
/// one coroutine; its end gives up what was not sealed.
class CodedWrite {
 public:
  struct Terms {
    ec::Geometry geometry;
    bool full_copy = false;   ///< this target keeps the object as it is, too
    bool owner_only = false;  ///< only the full copy, so far, whatever the layout
    bool strict = false;      ///< all slices, on as many targets as a full cluster has, or none
  };
  /// Finds a holder for each slice. `length`: of the object, if that is known. unavailable, or
  /// no_space, when there are fewer than k + 1, or `strict` wants more.
  static Task<Result<std::unique_ptr<CodedWrite>>> begin(TargetNode& node, ObjectName name,
                                                         const Terms& terms,
                                                         std::optional<std::uint64_t> length);
  ~CodedWrite();
  CodedWrite(const CodedWrite&) = delete;
  CodedWrite& operator=(const CodedWrite&) = delete;

  /// The room for the next bytes: never empty.
  [[nodiscard]] std::span<std::byte> room() { return encoder_.room(); }
  /// The first `bytes` of room() are there. Waits for holders that lag; one that fails is left out,
  /// and replaced by seal(). unavailable when fewer than k are left, or when it is clear that
  /// seal() will not find k + 1.
  Task<Status> filled(std::size_t bytes);
  /// The object ends here. Errors as filled().
  Task<Status> end();

  [[nodiscard]] std::uint64_t size() const { return encoder_.object_bytes(); }
  [[nodiscard]] std::uint64_t xxh64() const { return encoder_.xxh64(); }

  /// The coding that seal() will return, when all goes well, for a record of this generation.
  [[nodiscard]] io::Coding planned(const Generation& written) const;
  /// Makes slices of what was written, durably, for the version that `object` is: its generation,
  /// size, checksum and time. Slices that no holder has are made again at other holders, out of the
  /// rest. Returns the coding that names all that is sealed. Under the name's lock. After an error
  /// nothing may name any of it, and it goes.
  Task<Result<io::Coding>> seal(const io::ObjectAttribute& object);
  /// Holders that failed while they sealed a slice may have it all the same, and no record names it
  /// there: it goes. When the record of generation `up_to` is complete, or there will be none.
  void drop_unsure(const asio::any_io_executor& executor, Generation up_to);
  /// True, after seal(), if repair has something to add.
  [[nodiscard]] bool incomplete() const {
    return degraded_ || terms_.owner_only || !refused_.empty();
  }
  /// True, after seal(), if losses that the code could survive otherwise may be too many.
  [[nodiscard]] bool degraded() const { return degraded_; }

 private:
  CodedWrite(TargetNode& node, ObjectName name, const Terms& terms, ec::SetId set,
             ec::Encoder encoder);
  Task<Status> open_lanes(std::optional<std::uint64_t> length);
  Task<void> open_full_copy(std::optional<std::uint64_t> length);
  Task<void> send_full_copy(std::shared_ptr<const ec::Stripe> stripe);
  [[nodiscard]] std::vector<cluster::SlicePlace> plan();
  Task<Status> send(ec::Stripe stripe);
  [[nodiscard]] std::size_t needed() const;
  [[nodiscard]] Status enough() const;
  Status can_go_on();
  [[nodiscard]] ec::SliceNumbers good() const;
  [[nodiscard]] bool with_full_copy() const { return terms_.full_copy || terms_.owner_only; }
  [[nodiscard]] std::size_t wanted() const;
  [[nodiscard]] bool full_copy_is_good() const {
    return full_copy_ != nullptr && !full_copy_->failed();
  }
  Task<void> seal_lanes(const io::ObjectAttribute& object);
  Task<void> replace(const io::ObjectAttribute& object);
  Task<void> take_back(Generation up_to);
  [[nodiscard]] SliceKey key_of(std::uint8_t index) const {
    return {name_.bucket, name_.object, ec::raw(set_), index};
  }
  [[nodiscard]] io::Coding coding(const Generation& written,
                                  const std::vector<std::string>& holders,
                                  const std::string& full_copy) const;

  TargetNode& node_;
  const ObjectName name_;
  const Terms terms_;
  const ec::SetId set_;
  ec::Encoder encoder_;
  std::vector<std::shared_ptr<SliceLane>> lanes_;             // by index; null: no target takes it
  std::vector<std::string> sealed_;                           // by index: where; empty: nowhere
  std::shared_ptr<SliceLane> full_copy_;                      // null: there is none, or it failed
  std::vector<std::pair<std::string, std::uint8_t>> unsure_;  // holder and index
  std::string full_copy_sealed_;                              // its holder; empty: none
  std::set<std::string> refused_;                             // targets that failed, or refused
  Error last_;                                                // reason why the last of them did
  bool degraded_ = false;                                     // as the last plan would have it
};

/// CodedWrite::begin() as the bucket of `wanted`, which is coded, wants it.
Task<Result<std::unique_ptr<CodedWrite>>> begin_coded(TargetNode& node, const ObjectRequest& wanted,
                                                      std::optional<std::uint64_t> length);
/// The same with all that an unpublished work file holds. corrupt when its drive returns something
/// else than was written.
Task<Result<std::unique_ptr<CodedWrite>>> encode_file(TargetNode& node, const ObjectRequest& wanted,
                                                      WorkFile& file, std::uint64_t size,
                                                      std::uint64_t xxh64);

}  // namespace tarn::target
