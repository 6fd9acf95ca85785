#include "target/upstream/part_reads.h"

#include <algorithm>

namespace tarn::target {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::minutes kPartsTogether{1};
constexpr std::size_t kPartsKept = 10'000;

}  // namespace

PartReads::Seen PartReads::note(const std::string& key, http::ByteRange part,
                                steady_clock::time_point now) {
  const MutexLock lock(mutex_);
  const auto [found, is_new] = noted_.emplace(key, Noted{now});
  Noted& noted = found->second;
  const bool is_again = !is_new && now - noted.at < kPartsTogether;
  if (!is_again) noted = Noted{now};
  const bool is_next =
      part.offset > 0 && (part.offset == noted.end || part.offset == noted.furthest);
  const Seen out{is_again, is_again && is_next, noted.size};
  noted.at = now;
  noted.end = part.offset + part.length;
  if (noted.end < kSizeUnknown) noted.furthest = std::max(noted.furthest, noted.end);
  if (noted_.size() > kPartsKept)
    std::erase_if(noted_, [&](const auto& each) { return now - each.second.at >= kPartsTogether; });
  if (noted_.size() > kPartsKept) noted_.clear();
  return out;
}

void PartReads::note_size(const std::string& key, std::uint64_t size) {
  const MutexLock lock(mutex_);
  const auto found = noted_.find(key);
  if (found != noted_.end()) found->second.size = size;
}

}  // namespace tarn::target
