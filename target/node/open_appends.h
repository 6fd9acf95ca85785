#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/api/custom_metadata.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "target/drive/digests.h"

namespace tarn::target {

/// Contents of an append handle: opaque to clients, "<target>.<id>.<size>". The size makes every
/// handle good for one next call: a client that did not hear the answer may send the last append
/// again, and its bytes are not there twice.
struct AppendHandle {
  std::string target;
  std::string id;
  std::uint64_t size = 0;  ///< bytes that were there when it was issued

  [[nodiscard]] std::string text() const;
  /// invalid_argument for what is no handle of ours.
  [[nodiscard]] static Result<AppendHandle> parse(std::string_view text);
};

/// An object that grows by appends and that no reader sees until it is flushed.
struct Append {
  std::string id;
  std::string key;
  std::unique_ptr<WorkFile> file;
  Digests digests;
  Digests::Mark before;        ///< the last append began here, and may be sent again
  bool has_leftovers = false;  ///< the file is longer than by `digests`: an append broke off
  api::CustomMetadata custom;  ///< of the object that it began with
};

/// The appends under way at a target. A restart forgets them; their files then go with all other
/// unfinished ones. Thread-safe.
class OpenAppends {
 public:
  static constexpr std::size_t kCountMax = 1000;  ///< each holds a file open

  /// One call's hold of an append: no other call gets it meanwhile.
  class Use {
   public:
    Use() = default;
    Use(OpenAppends& all, std::shared_ptr<Append> append, Clock& clock)
        : all_(&all), append_(std::move(append)), clock_(&clock) {}
    ~Use();
    Use(Use&&) noexcept = default;
    Use& operator=(Use&&) = delete;
    [[nodiscard]] Append& operator*() const { return *append_; }
    [[nodiscard]] Append* operator->() const { return append_.get(); }
    /// The append is over: flushed, or not to be gone on with.
    void end();

   private:
    OpenAppends* all_ = nullptr;
    std::shared_ptr<Append> append_;
    Clock* clock_ = nullptr;
  };

  // `clock` must outlive what is returned.

  /// Takes a new append in. unavailable when there are too many.
  [[nodiscard]] Result<Use> add(std::unique_ptr<WorkFile> file, std::string key, Clock& clock);
  /// invalid_argument when there is no such append (any more) of this name, conflict while another
  /// call has it.
  [[nodiscard]] Result<Use> use(const AppendHandle& handle, std::string_view key, Clock& clock);
  /// Drops those that were last used before `before`. Returns how many.
  std::size_t drop_idle(BootTime before);

 private:
  struct Slot {
    std::shared_ptr<Append> append;
    BootTime used{};
    bool busy = false;
  };
  void give_back(const std::string& id, BootTime now);
  void erase(const std::string& id);

  Mutex mutex_;
  std::map<std::string, Slot> slots_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
