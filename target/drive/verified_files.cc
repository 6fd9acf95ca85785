#include "target/drive/verified_files.h"

#include "common/base/check.h"

namespace tarn::target {
namespace {

constexpr std::size_t kFilesMax = 100'000;

}  // namespace

std::shared_ptr<VerifiedBlocks> VerifiedFiles::of(const io::FileName& file, std::uint64_t size) {
  const MutexLock lock(mutex_);
  if (const auto found = by_file_.find(file); found != by_file_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return found->second->blocks;
  }
  order_.push_front({file, std::make_shared<VerifiedBlocks>(blocks_of(size))});
  by_file_[file] = order_.begin();
  if (order_.size() > kFilesMax) {
    by_file_.erase(order_.back().file);
    order_.pop_back();
  }
  TARN_CHECK(by_file_.size() == order_.size());
  return order_.front().blocks;
}

}  // namespace tarn::target
