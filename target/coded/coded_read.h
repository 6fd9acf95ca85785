#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/base/hash.h"
#include "ec/decoder.h"
#include "target/coded/slice_set.h"
#include "target/node/node.h"

namespace tarn::target {

/// Bytes of a coded object, in order, from k of its slices (docs/decisions/019, "A read"). When too
/// few can be had its record is looked up anew: the slices may have moved meanwhile. For one
/// coroutine, which must not be ended while next() runs and does not hold the name's lock; `node`
/// must outlive it.
class CodedReader {
 public:
  /// Bytes [begin, end) of the object that `record`, which has a coding, is of. `purpose`: of the
  /// turns that it takes.
  CodedReader(TargetNode& node, const ObjectName& name, const io::ObjectRecord& record,
              std::uint64_t begin, std::uint64_t end, TurnFor purpose = TurnFor::client);

  /// The next bytes, as views until the call after; none: all were returned. The last bytes come
  /// only when the whole object matches its checksum. unavailable when fewer than k slices can be
  /// had now, or the object is another one by now; corrupt when fewer are left for good, or when k
  /// are there, and the whole is another all the same.
  Task<Result<std::span<const std::span<const std::byte>>>> next();
  /// After an error of next(): the name has another version by now, or none.
  [[nodiscard]] bool overtaken() const { return overtaken_; }
  /// The slices that were not what was stored.
  [[nodiscard]] ec::SliceNumbers bad() const { return slices_.bad(); }

 private:
  Task<Status> fill();
  Task<Status> look_again(Error why);
  Status check_whole(std::span<const std::span<const std::byte>> bytes);

  TargetNode& node_;
  const ObjectName name_;
  const std::uint64_t set_;
  const ec::Layout layout_;
  const ec::Stripes stripes_;  // to be read
  ec::Decoder decoder_;
  SliceSet slices_;
  const std::uint64_t xxh64_;
  std::optional<Xxh64Stream> seen_;  // if all of the object is read
  bool given_ = false;               // the decoder's stripe
  int looks_ = 0;                    // at newer records
  bool overtaken_ = false;
};

}  // namespace tarn::target
