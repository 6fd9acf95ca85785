#pragma once

#include <optional>
#include <utility>

#include "target/drive/index_pages.h"

namespace tarn::target {

/// Shows slices to SlicePages.
struct SliceWalk {
  using Key = const SliceKey&;
  using Record = const io::ObjectRecord&;
  using Last = std::optional<SliceKey>;

  /// Shows `look` the slices after a key until it returns false. Errors: of Drive::walk_slices().
  [[nodiscard]] Task<Status> run(Drive& drive, BucketId bucket, std::optional<SliceKey> after,
                                 Index::SliceVisitor look) const {
    return drive.walk_slices(bucket, std::move(after), std::move(look));
  }
};

/// The slices of a bucket on a drive, by name, set and index, a page at a time (IndexPages).
template <class Item>
using SlicePages = IndexPages<SliceWalk, Item>;

}  // namespace tarn::target
