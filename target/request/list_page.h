#pragma once

#include <functional>
#include <string>

#include "common/api/list_fields.h"
#include "common/api/list_merge.h"
#include "common/base/async.h"
#include "target/store/object_store.h"

namespace tarn::target {

/// Names of a bucket to list, and how each entry is to look.
struct ListPlan {
  BucketOnDrives bucket;
  std::string prefix;
  bool by_directory = false;  ///< names with a further '/' are folded into one entry "dir/"
  api::ListFields fields;
  api::TimeFormat time_format = api::TimeFormat::rfc822;
  std::string node;                             ///< id of this target, for locations
  std::function<bool(std::string_view)> shows;  ///< names to list; empty: all
  ObjectStore::InPlaceOf
      in_place_of;  ///< asked for each of these names; empty: all stand as they are
};

/// Packs entries as the plan wants them.
class EntryPacker {
 public:
  EntryPacker(const ListPlan& plan, std::string location)
      : fields_(plan.fields), times_(plan.time_format), location_(std::move(location)) {}

  void add_directory(std::string_view name);
  void add(std::string_view name, const io::ObjectRecord& record, std::uint32_t copies = 1);
  [[nodiscard]] std::size_t size() const { return packer_.size(); }
  [[nodiscard]] api::PackedPage take(bool more) { return packer_.take(more); }

 private:
  api::ListFields fields_;
  api::TimeTexts times_;
  std::string location_;
  api::PagePacker packer_;
};

/// One page of one drive, made of what Index::list() shows: live objects after `after`, directories
/// folded. `plan` must outlive it.
class DrivePage {
 public:
  DrivePage(const ListPlan& plan, std::string location, std::string after, std::size_t limit)
      : plan_(plan), packer_(plan, std::move(location)), after_(std::move(after)), limit_(limit) {}

  Index::Step visit(std::string_view name, const io::ObjectRecord& record);
  [[nodiscard]] api::PackedPage take() { return packer_.take(more_); }

 private:
  const ListPlan& plan_;
  EntryPacker packer_;
  std::string after_;
  std::size_t limit_;
  bool more_ = false;
};

/// Names greater than `after`, in byte order, at most `limit`, as clients will get them. The drives
/// walk and pack at the same time, each on a thread of its own. Never short: unavailable when any
/// drive is away.
Task<Result<api::MergedPage>> list_page(ObjectStore& store, ListPlan plan, std::string after,
                                        std::size_t limit);

/// "[key:value other:value]": what AIStore shows of custom metadata, sorted by key. Content-Type is
/// a header and not among it.
[[nodiscard]] std::string custom_text(const io::ObjectRecord& record,
                                      const api::ListFields& fields);

/// "t[id]:mp[path, disk, file system]".
[[nodiscard]] std::string location_text(const std::string& node, const Drive& drive);

}  // namespace tarn::target
