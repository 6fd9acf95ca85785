#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "common/base/mutex.h"
#include "common/io/object_attribute.h"
#include "target/drive/open_object.h"

namespace tarn::target {

/// Verified blocks of the files of a drive that were read last. Bounded; the file that was not
/// asked for the longest is forgotten first. Thread-safe.
class VerifiedFiles {
 public:
  /// Verified blocks of `file`, which has `size` bytes.
  [[nodiscard]] std::shared_ptr<VerifiedBlocks> of(const io::FileName& file, std::uint64_t size);

 private:
  struct Entry {
    io::FileName file;
    std::shared_ptr<VerifiedBlocks> blocks;
  };
  Mutex mutex_;
  std::list<Entry> order_ TARN_GUARDED_BY(mutex_);  // most recently used first
  std::map<io::FileName, std::list<Entry>::iterator> by_file_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
