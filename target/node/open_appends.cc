#include "target/node/open_appends.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/encoding.h"
#include "common/base/random.h"

namespace tarn::target {

std::string AppendHandle::text() const { return fmt::format("{}.{}.{}", target, id, size); }

Result<AppendHandle> AppendHandle::parse(std::string_view text) {
  const auto first = text.find('.');
  const auto last = text.rfind('.');
  if (first != std::string_view::npos && first != last) {
    if (const auto size = parse_u64(text.substr(last + 1)))
      return AppendHandle{std::string(text.substr(0, first)),
                          std::string(text.substr(first + 1, last - first - 1)), *size};
  }
  return fail(Errc::invalid_argument,
              "append_handle '{}' is none that was given out; the first append has an empty one",
              text);
}

OpenAppends::Use::~Use() {
  if (append_) all_->give_back(append_->id, clock_->boot_time());
}

void OpenAppends::Use::end() {
  if (append_) all_->erase(append_->id);
  append_.reset();
}

Result<OpenAppends::Use> OpenAppends::add(std::unique_ptr<WorkFile> file, std::string key,
                                          Clock& clock) {
  auto append = std::make_shared<Append>();
  append->id = hex64(random_u64());
  append->key = std::move(key);
  append->file = std::move(file);
  const MutexLock lock(mutex_);
  if (slots_.size() >= kCountMax)
    return fail(Errc::unavailable, "{} appends are under way here: flush some first",
                slots_.size());
  slots_[append->id] = {append, clock.boot_time(), true};
  return Use(*this, append, clock);
}

Result<OpenAppends::Use> OpenAppends::use(const AppendHandle& handle, std::string_view key,
                                          Clock& clock) {
  const MutexLock lock(mutex_);
  const auto at = slots_.find(handle.id);
  if (at == slots_.end() || at->second.append->key != key)
    return fail(Errc::invalid_argument,
                "append_handle '{}' is unknown at target t[{}]: it was flushed, nothing was "
                "appended for too long, or the target was restarted; what was not flushed is "
                "gone, begin again with an empty handle",
                handle.text(), handle.target);
  if (std::exchange(at->second.busy, true))
    return fail(Errc::conflict, "another append with this handle is under way");
  return Use(*this, at->second.append, clock);
}

void OpenAppends::give_back(const std::string& id, BootTime now) {
  const MutexLock lock(mutex_);
  if (const auto at = slots_.find(id); at != slots_.end()) {
    // Two calls that both write to one file would mix their bytes.
    TARN_CHECK(at->second.busy);
    at->second.busy = false;
    at->second.used = std::max(at->second.used, now);
  }
}

void OpenAppends::erase(const std::string& id) {
  const MutexLock lock(mutex_);
  const std::size_t erased = slots_.erase(id);
  TARN_CHECK(erased == 1);  // one that is in use is not dropped as idle
}

std::size_t OpenAppends::drop_idle(BootTime before) {
  std::vector<std::shared_ptr<Append>> dropped;  // dies outside the lock
  const MutexLock lock(mutex_);
  for (auto at = slots_.begin(); at != slots_.end();) {
    const bool idle = !at->second.busy && at->second.used < before;
    if (idle) dropped.push_back(std::move(at->second.append));
    at = idle ? slots_.erase(at) : std::next(at);
  }
  return dropped.size();
}

}  // namespace tarn::target
