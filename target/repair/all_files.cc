#include "target/repair/all_files.h"

#include "target/drive/record_pages.h"
#include "target/drive/slice_pages.h"

namespace tarn::target {
namespace {

constexpr PageSize kAllFilesPage{.records = 20'000};

Task<Status> objects(Drive& drive, const cluster::BucketRecord& bucket, const FileVisitor& visit) {
  const auto each = [&](std::string_view, const io::ObjectRecord& record, auto&) {
    if (record.kind == io::ObjectRecord::Kind::object) visit(bucket, record);
  };
  RecordPages<NoItem> pages(drive, bucket.id, each, kAllFilesPage);
  while (pages.more()) CO_TRY_OK(co_await pages.next());
  co_return Status();
}

Task<Status> slices(Drive& drive, const cluster::BucketRecord& bucket, const FileVisitor& visit) {
  const auto each = [&](const SliceKey&, const io::ObjectRecord& record, auto&) {
    visit(bucket, record);
  };
  SlicePages<NoItem> pages(drive, bucket.id, each, kAllFilesPage);
  while (pages.more()) CO_TRY_OK(co_await pages.next());
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
