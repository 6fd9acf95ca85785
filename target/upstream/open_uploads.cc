#include "target/upstream/open_uploads.h"

#include <sstream>

#include "common/base/encoding.h"
#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/upstream/upload.h"

namespace tarn::target {
namespace {

constexpr const char* kUploadsNote = "uploads";
constexpr std::chrono::seconds kLeftLookEvery{60};
constexpr std::chrono::seconds kLeaseLookEvery{1};

/// A line each: the bucket's id, then the object's name and upstream's id in hexadecimal, since
/// both may have any bytes.
std::string text_of(const std::vector<OpenUploads::Note>& notes) {
  std::string out;
  for (const auto& each : notes)
    out += fmt::format("{} {} {}\n", raw(each.bucket), hex(each.object), hex(each.upload));
  return out;
}

/// Ends at a line that is none of ours.
std::vector<OpenUploads::Note> notes_in(const std::string& text) {
  std::vector<OpenUploads::Note> out;
  std::istringstream lines(text);
  std::uint64_t bucket = 0;
  std::string object;
  std::string upload;
  while (lines >> bucket >> object >> upload) {
    auto its_object = unhex(object);
    auto its_upload = unhex(upload);
    if (its_object && its_upload)
      out.push_back({BucketId(bucket), std::move(*its_object), std::move(*its_upload)});
  }
  return out;
}

}  // namespace

Task<Status> OpenUploads::change(Drive& drive, std::function<void(std::vector<Note>&)> edit) {
  const auto held = co_await turns_.acquire(drive.path());
  CO_TRY(const std::string text, co_await drive.note(kUploadsNote));
  auto notes = notes_in(text);
  edit(notes);
  co_return co_await drive.keep_note(kUploadsNote, text_of(notes));
}

Task<Result<std::unique_ptr<OpenUploads::Entry>>> OpenUploads::begin(std::shared_ptr<Drive> drive,
                                                                     Note note) {
  {
    const MutexLock lock(mutex_);
    under_way_.insert(note.upload);
  }
  auto entry = std::make_unique<Entry>(*this, drive, note.upload);
  CO_TRY_OK(co_await change(*drive, [&](auto& notes) { notes.push_back(note); }));
  co_return entry;
}

Task<void> OpenUploads::drop_note(Drive& drive, const std::string& upload) {
  const Status done = co_await change(drive, [&](auto& notes) {
    std::erase_if(notes, [&](const auto& each) { return each.upload == upload; });
  });
  if (!done)
    obs::log("target").warn("note of an upload stays drive={} upload={} err={}", drive.path(),
                            upload, done.error().message);
}

Task<void> OpenUploads::remove_left() {
  Event never;
  EventListener pause(never, co_await asio::this_coro::executor);
  // Before it has its lease it does not know what buckets there are.
  while (!node_.membership.lease().valid()) co_await pause.wait_until(next_tick(kLeaseLookEvery));
  while (true) {
    for (const auto& drive : node_.store.drives())
      if (drive->in_service()) co_await remove_left_on(*drive);
    co_await pause.wait_until(next_tick(kLeftLookEvery));
  }
}

Task<void> OpenUploads::remove_left_on(Drive& drive) {
  const auto text = co_await drive.note(kUploadsNote);
  if (!text) co_return;
  for (const Note& note : notes_in(*text)) {
    if (is_under_way(note.upload)) continue;
    if (co_await remove(note)) co_await drop_note(drive, note.upload);
  }
}

/// True if they are gone, or can never be removed from here: their bucket is not known any more.
Task<bool> OpenUploads::remove(const Note& note) {
  const auto state = node_.view.state();
  const auto* bucket = state->bmd.find(note.bucket);
  if (bucket == nullptr || !api::has_upstream(bucket->name)) co_return true;
  const UpstreamName name{bucket->name, api::upstream_of(bucket->name, bucket->props), note.object};
  if (!co_await abort_upload(upstream_, name, note.upload)) co_return false;
  obs::log("target").info("upload that broke off aborted upstream object={} upload={}",
                          name.display(), note.upload);
  co_return true;
}

bool OpenUploads::is_under_way(const std::string& upload) const {
  const MutexLock lock(mutex_);
  return SAFETY("safety.running_uploads") && under_way_.contains(upload);
}

void OpenUploads::forget(const std::string& upload) {
  const MutexLock lock(mutex_);
  under_way_.erase(upload);
}

}  // namespace tarn::target
