#include "target/repair/coded_walk.h"

#include <algorithm>
#include <iterator>

#include "common/api/mirror_props.h"
#include "target/replica/away_drive.h"

namespace tarn::target {
namespace {

/// Records that one visit to a drive's thread looks at.
constexpr std::size_t kCodedWalkRecordsAtOnce = 50'000;

struct CodedWalkPage {
  std::vector<CodedObject> objects;
  std::string last;
  bool more = false;
};

/// True if records of a name may lie on several drives: always, or since one of them is, or was,
/// away and another one got what lies there.
bool on_several_drives(const TargetNode& node, const cluster::BucketRecord& bucket) {
  return api::copies_of(bucket.props) > 0 || node.store.may_hold_misplaced();
}

/// Records of a name on the drives that are there.
Task<Result<std::vector<Located>>> seen_of(TargetNode& node, ObjectName name) {
  if (name.copies > 0) co_return co_await node.store.find_seen(std::move(name));
  co_return co_await find_here(node, std::move(name));
}

/// Of objects whose records lie on several drives, those stay of which `drive` is the first to have
/// the newest.
Task<Status> keep_first_of(TargetNode& node, const Drive& drive, CodedWalkPage& page) {
  std::vector<CodedObject> first;
  for (CodedObject& object : page.objects) {
    auto found = co_await seen_of(node, object.name);
    if (!found && object.name.copies > 0) co_return fail(found.error());
    if (found) {
      if (found->empty() || found->front().drive != &drive || !found->front().record.coding)
        continue;
      object.record = std::move(found->front().record);
    }
    first.push_back(std::move(object));
  }
  page.objects = std::move(first);
  co_return Status();
}

/// Coded objects of a drive that this target owns.
Task<Result<CodedWalkPage>> coded_walk_next_page(TargetNode& node, Drive& drive,
                                                 const cluster::BucketRecord& bucket,
                                                 std::string after, const std::string& up_to) {
  const auto map = node.view.state()->ownership->map;
  CodedWalkPage page;
  std::size_t seen = 0;
  const auto visit = [&](std::string_view object, io::ObjectRecord record) -> Index::Step {
    if (!up_to.empty() && object > up_to) {
      page.more = false;
      return {.stop = true, .skip_to = {}};
    }
    page.last = std::string(object);
    if (record.coding) {
      ObjectName name = name_in(bucket, page.last);
      if (cluster::writer_of(*map, cluster::placement_digest(name.uname)) == node.id)
        page.objects.push_back({std::move(name), std::move(record)});
    }
    page.more = ++seen == kCodedWalkRecordsAtOnce || page.objects.size() == kSlicesAtOnce;
    return {.stop = page.more, .skip_to = {}};
  };
  CO_TRY_OK(co_await drive.walk(bucket.id, "", std::move(after), visit));
  if (on_several_drives(node, bucket)) CO_TRY_OK(co_await keep_first_of(node, drive, page));
  co_return page;
}

}  // namespace

Task<Status> walk_coded(TargetNode& node, cluster::BucketRecord bucket,
                        std::function<void(const std::vector<CodedObject>&)> visit,
                        NameRange range) {
  std::vector<CodedObject> gathered;  // of several drives: of a short range each has a few only
  for (const auto& drive : node.store.drives()) {
    if (!drive->in_service()) continue;
    std::string after = range.after;
    for (bool more = true; more;) {
      CO_TRY(CodedWalkPage page,
             co_await coded_walk_next_page(node, *drive, bucket, after, range.last));
      more = page.more;
      after = page.last;
      std::move(page.objects.begin(), page.objects.end(), std::back_inserter(gathered));
      if (gathered.size() < kSlicesAtOnce) continue;
      co_await ask_holders(node, gathered);
      visit(gathered);
      gathered.clear();
    }
  }
  if (gathered.empty()) co_return Status();
  co_await ask_holders(node, gathered);
  visit(gathered);
  co_return Status();
}

}  // namespace tarn::target
