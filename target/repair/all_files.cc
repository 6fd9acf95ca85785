#include "target/repair/all_files.h"

namespace tarn::target {
namespace {

constexpr std::size_t kAllFilesAtOnce = 20'000;

Task<Status> objects(Drive& drive, const cluster::BucketRecord& bucket, const FileVisitor& visit) {
  std::string after;
  for (bool more = true; more;) {
    std::size_t seen = 0;
    more = false;
    const auto each = [&](std::string_view name, const io::ObjectRecord& record) -> Index::Step {
      after = std::string(name);
      if (record.kind == io::ObjectRecord::Kind::object) visit(bucket, record);
      more = ++seen == kAllFilesAtOnce;
      return {.stop = more, .skip_to = {}};
    };
    CO_TRY_OK(co_await drive.walk(bucket.id, "", after, each));
  }
  co_return Status();
}

Task<Status> slices(Drive& drive, const cluster::BucketRecord& bucket, const FileVisitor& visit) {
  std::optional<SliceKey> after;
  for (bool more = true; more;) {
    std::size_t seen = 0;
    more = false;
    const auto each = [&](const SliceKey& key, const io::ObjectRecord& record) {
      after = key;
      visit(bucket, record);
      more = ++seen == kAllFilesAtOnce;
      return !more;
    };
    CO_TRY_OK(co_await drive.walk_slices(bucket.id, after, each));
  }
  co_return Status();
}

}  // namespace

Task<Status> for_each_file(TargetNode& node, Drive& drive, FileVisitor visit) {
  const auto state = node.view.state();
  for (const auto& [name, bucket] : state->bmd.buckets) {
    CO_TRY_OK(co_await objects(drive, bucket, visit));
    CO_TRY_OK(co_await slices(drive, bucket, visit));
  }
  co_return Status();
}

}  // namespace tarn::target
