#include "cli/drives/slice_files.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

#include "common/base/unique_fd.h"
#include "ec/decoder.h"

namespace tarn::cli {
namespace {

Status read_block(int fd, std::span<std::byte> into, std::uint64_t offset) {
  while (!into.empty()) {
    const ssize_t got = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read a slice");
    if (got == 0) return fail(Errc::corrupt, "the slice ends before its blocks do");
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

/// The slices of one set, opened.
class SliceFiles {
 public:
  explicit SliceFiles(const FoundSet& set) : blocks_(ec::kSlicesMax) {
    for (const auto& slice : set.slices) {
      UniqueFd fd(::open(slice.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
      if (!fd.valid()) continue;  // as good as not there
      ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
      files_.push_back({slice.index, std::move(fd)});
      indexes_.insert(slice.index);
    }
  }

  [[nodiscard]] ec::SliceNumbers indexes() const { return indexes_; }

  /// The block of a slice that the decoder wants, from the first file that has it.
  Status add(ec::Decoder& decoder, std::size_t index) {
    const ec::FileRange range = decoder.block_range();
    Status last = fail(Errc::corrupt, "slice {} is not there", index);
    for (const auto& [of, fd] : files_) {
      if (of != index) continue;
      auto& block = blocks_[index];
      block.resize(range.bytes);
      last = read_block(fd.get(), block, range.offset);
      if (last) last = decoder.add(index, block);
      if (last) return last;
    }
    return last;
  }

 private:
  std::vector<std::pair<std::size_t, UniqueFd>> files_;
  ec::SliceNumbers indexes_;
  std::vector<std::vector<std::byte>> blocks_;  // by slice
};

/// Adds blocks until the stripe can be made.
Status fill(ec::Decoder& decoder, SliceFiles& files, const FoundFile& object) {
  ec::SliceNumbers alive = files.indexes();
  const std::size_t k = decoder.layout().geometry().k;
  while (!decoder.ready()) {
    const auto chosen = ec::slices_to_read(alive, decoder.wanted(), k);
    if (!chosen)
      return fail(Errc::corrupt, "{}: {} good blocks of stripe {} are there, {} are needed",
                  object.path, alive.size(), decoder.stripe(), k);
    for (const std::size_t index : *chosen - decoder.have())
      if (!files.add(decoder, index)) alive.erase(index);
  }
  return {};
}

}  // namespace

Status read_slices(const FoundFile& object,
                   const std::function<Status(std::span<const std::byte>)>& take) {
  const io::Slice& shape = object.slices->shape;
  TRY(const auto layout, ec::Layout::of({shape.k, shape.m, shape.block_bytes}, object.size));
  ec::Decoder decoder(layout, ec::SetId(shape.set), 0, object.size);
  for (SliceFiles files(*object.slices); !decoder.done(); decoder.next()) {
    TRY_OK(fill(decoder, files, object));
    TRY(const auto parts, decoder.bytes());
    for (const auto& part : parts) TRY_OK(take(part));
  }
  return {};
}

}  // namespace tarn::cli
