#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/http/message.h"

namespace tarn::target {

/// Parts (Range) of cold objects that were asked for in the last minute: they distinguish a reader
/// of a few bytes from one of the whole. Thread-safe.
class PartReads {
 public:
  /// More than any object has. A part to the end of an object ends there while its size is unknown.
  static constexpr std::uint64_t kSizeUnknown = std::uint64_t{1} << 62U;

  struct Seen {
    bool is_again = false;              ///< another part was asked for within a minute
    bool follows = false;               ///< this one begins where that one ended
    std::optional<std::uint64_t> size;  ///< of the object, if note_size() set it
  };
  /// Notes a part that is asked for now, and returns what is known of those before it.
  Seen note(const std::string& key, http::ByteRange part,
            std::chrono::steady_clock::time_point now);
  /// The size of an object of which a part was noted.
  void note_size(const std::string& key, std::uint64_t size);

 private:
  struct Noted {
    std::chrono::steady_clock::time_point at;
    std::uint64_t end = 0;       ///< of the last part
    std::uint64_t furthest = 0;  ///< of all parts: those of several connections come in any order
    std::optional<std::uint64_t> size = {};
  };

  Mutex mutex_;
  std::map<std::string, Noted> noted_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
