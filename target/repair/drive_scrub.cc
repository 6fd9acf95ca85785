#include "target/repair/drive_scrub.h"

#include <algorithm>

#include "common/api/mirror_props.h"
#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/drive/read_through.h"
#include "target/drive/record_pages.h"
#include "target/node/bad_slices.h"
#include "target/node/move_pace.h"
#include "target/repair/all_files.h"
#include "target/repair/copy_again.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr auto kDriveScrubLookEvery = 500ms;
constexpr auto kSettleEvery = 2s;
constexpr auto kSaveEvery = 1s;
/// A start has other things to do first, and so has the operator who started it.
constexpr std::chrono::milliseconds kFirstWait = 5min;
constexpr std::size_t kDriveScrubPageEntries = 256;
constexpr const char* kNote = "scrub";
/// In place of a job: a drive that came is read through.
constexpr const char* kCame = "returned";

spdlog::logger& scrub_log() { return obs::log("scrub"); }

/// A file of the drive, as the index has it.
struct Entry {
  SliceKey key;  // set and index: of a slice
  bool slice = false;
  io::ObjectRecord record;
};

/// The scrub of one drive. For one coroutine.
class DriveScrub {
 public:
  DriveScrub(TargetNode& node, std::shared_ptr<Drive> drive, bool came)
      : node_(node),
        drive_(std::move(drive)),
        board_(node.scrub.of(drive_->path())),
        to_verify_(came && SAFETY("safety.verify_returned")) {
    board_->show({}, false);  // another drive may have been at this path
  }

  Task<void> run();

 private:
  Task<bool> load();
  Task<void> save();
  bool take_over();
  Task<void> read_well(const Entry& entry, io::FileName file);
  Task<Status> save_now_and_then();
  [[nodiscard]] std::int64_t wall_ns() const { return node_.clock.wall_time().count(); }
  [[nodiscard]] std::chrono::milliseconds period() const { return node_.scrub.period.load(); }
  [[nodiscard]] bool is_due() const;
  /// True if a caller waits for the end of the present pass.
  [[nodiscard]] bool asked() const {
    return verifies() || (!state_.job.empty() && board_->wanted() == state_.job);
  }
  /// The present pass, or the last, is the one of a drive that came.
  [[nodiscard]] bool verifies() const { return state_.job == kCame; }
  [[nodiscard]] Status go_on() const;

  Task<Status> begin();
  Task<Status> pass();
  Task<Status> objects(const cluster::BucketRecord& bucket, std::string after);
  Task<Status> slices(const cluster::BucketRecord& bucket, std::optional<SliceKey> after);
  Task<Status> look_at(const cluster::BucketRecord& bucket, Entry entry);
  Task<Result<std::shared_ptr<OpenObject>>> open(const Entry& entry);
  Task<Status> read(const Entry& entry, io::FileName& file);
  Task<Status> pay(std::uint64_t cost);
  Task<Result<std::optional<io::ObjectRecord>>> find(SliceKey key, bool slice);
  Task<void> note_bad(const cluster::BucketRecord& bucket, const Entry& entry, Error error);
  Task<void> have_repaired(const cluster::BucketRecord& bucket, const Entry& entry);
  Task<void> settle();

  TargetNode& node_;
  const std::shared_ptr<Drive> drive_;
  const std::shared_ptr<ScrubOfDrive> board_;
  bool to_verify_;      // came, and since then no pass has both begun and ended
  bool begun_ = false;  // the present pass has begun since
  ScrubState state_;
  RateLimiter needed_;  // keeps the present pass in time
  BootTime started_ = node_.clock.boot_time();
  BootTime saved_{};
  BootTime settled_{};
  BootTime counted_{};  // of the rate
  std::uint64_t counted_bytes_ = 0;
};

Task<bool> DriveScrub::load() {
  const auto text = co_await drive_->note(kNote);
  if (!text) co_return false;
  if (!text->empty() && SAFETY("safety.scrub_resumes")) {
    auto state = scrub_state_from(*text);
    if (state)
      state_ = std::move(*state);
    else
      scrub_log().warn("begins anew drive={} err={}", drive_->path(), state.error().message);
  }
  co_await settle();  // first: what is shown is what counts
  board_->show(state_, true);
  co_return true;
}

/// Takes over what note_bad_file() added to the findings that are shown. True if it did. With what
/// follows, up to the next show(), it may not be interrupted by another coroutine of this loop.
bool DriveScrub::take_over() {
  bool any = false;
  if (!board_->known()) return any;
  ScrubState shown = board_->state();
  for (ScrubFinding& each : shown.found) {
    const bool has = std::any_of(state_.found.begin(), state_.found.end(),
                                 [&](const auto& ours) { return ours.file == each.file; });
    if (has || each.outcome != ScrubFinding::Outcome::open) continue;
    state_.add(std::move(each));
    any = true;
  }
  if (any) board_->show(state_, true);
  return any;
}

/// A file is as it was stored: a finding about it, from a moment when its drive had trouble, is
/// withdrawn.
Task<void> DriveScrub::read_well(const Entry& entry, io::FileName file) {
  take_over();
  const std::size_t withdrawn = std::erase_if(state_.found, [&](const ScrubFinding& each) {
    return each.outcome == ScrubFinding::Outcome::open && each.file == file;
  });
  if (withdrawn == 0) co_return;
  board_->show(state_, true);
  if (entry.slice) node_.bad_slices.erase(entry.key);
  scrub_log().info("file is as it was stored drive={} file={} object={}", drive_->path(),
                   file.path(), entry.key.name);
  co_await save();
}

Task<void> DriveScrub::save() {
  take_over();
  board_->show(state_, true);
  saved_ = node_.clock.boot_time();
  const Status kept = co_await drive_->keep_note(kNote, encode(state_));
  if (!kept)
    scrub_log().warn("how far it is was not noted drive={} err={}", drive_->path(),
                     kept.error().message);
}

Task<Status> DriveScrub::save_now_and_then() {
  const BootTime now = node_.clock.boot_time();
  if (now - counted_ > kSaveEvery) {
    const double seconds = std::chrono::duration<double>(now - counted_).count();
    board_->rate = counted_ == BootTime{} || state_.bytes < counted_bytes_
                       ? 0
                       : static_cast<std::uint64_t>(
                             static_cast<double>(state_.bytes - counted_bytes_) / seconds);
    counted_ = now;
    counted_bytes_ = state_.bytes;
  }
  if (now - saved_ > kSaveEvery) co_await save();
  if (now - settled_ > kSettleEvery) co_await settle();
  co_return Status();
}

/// True if a pass is to begin, or the present one to begin again.
bool DriveScrub::is_due() const {
  const std::string wanted = board_->wanted();
  if (!wanted.empty()) return wanted != state_.job;
  if (to_verify_ && !(begun_ && state_.runs())) return true;
  if (state_.runs() || period() == 0ms) return false;
  const auto waited = node_.clock.boot_time() - started_;
  return waited >= std::min(kFirstWait, period() / 10) &&
         wall_ns() >= next_scrub_ns(state_, period());
}

/// cancelled: the pass is not to go on now.
Status DriveScrub::go_on() const {
  if (!drive_->in_service() || node_.store.drive_at(drive_->path()) != drive_)
    return fail(Errc::cancelled, "the drive is out of service");
  const std::string wanted = board_->wanted();
  if (!wanted.empty() && wanted != state_.job) return fail(Errc::cancelled, "another is wanted");
  const bool by_itself = wanted.empty() && !to_verify_ && !verifies();
  if (by_itself && period() == 0ms) return fail(Errc::cancelled, "none is wanted");
  return {};
}

/// Waits until so much may be read.
Task<Status> DriveScrub::pay(std::uint64_t cost) {
  while (true) {
    CO_TRY_OK(go_on());
    const auto period = this->period() == 0ms ? ScrubBoard::kPeriod : this->period();
    const std::int64_t wall = wall_ns();
    needed_.set(scrub_rate_needed(state_, period, wall));
    const bool hurries = asked() || wall > scrub_deadline_ns(state_, period);
    const BootTime now = node_.clock.boot_time();
    const bool foreground = node_.clients.load() > 0 && drive_->turns().clients_wait();
    const auto wait = hurries ? wait_between(needed_, node_.scrub.rate, cost, now, foreground)
                              : std::min<std::chrono::nanoseconds>(needed_.take(cost, now), 100ms);
    if (wait == std::chrono::nanoseconds::zero()) co_return Status();
    co_await pause(wait);
  }
}

/// Begins a pass: sums up what there is to read, from the index alone.
Task<Status> DriveScrub::begin() {
  std::string job = board_->wanted();
  if (job.empty() && to_verify_) job = kCame;
  std::uint64_t cost = 0;
  const auto add = [&cost](const auto&, const io::ObjectRecord& record) {
    cost += record.file_bytes() + ScrubState::kFileCost;
  };
  CO_TRY_OK(co_await for_each_file(node_, *drive_, add));
  state_.begin(job, cost, wall_ns());
  begun_ = true;
  co_await save();
  scrub_log().info("begins drive={} job={} cost={}", drive_->path(), job, cost);
  co_return Status();
}

Task<Status> DriveScrub::pass() {
  const auto state = node_.view.state();
  std::vector<cluster::BucketRecord> buckets;
  for (const auto& [name, bucket] : state->bmd.buckets) buckets.push_back(bucket);
  std::sort(buckets.begin(), buckets.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  for (const cluster::BucketRecord& bucket : buckets) {
    if (raw(bucket.id) < state_.at.bucket) continue;
    const ScrubMark at = state_.at;
    const bool begun = raw(bucket.id) == at.bucket;
    if (!begun || !at.slices) CO_TRY_OK(co_await objects(bucket, begun ? at.name : ""));
    std::optional<SliceKey> after;
    if (begun && at.slices) after = SliceKey{bucket.id, at.name, at.set, at.index};
    CO_TRY_OK(co_await slices(bucket, std::move(after)));
  }
  state_.end(wall_ns());
  if (begun_) to_verify_ = false;
  co_await save();
  scrub_log().info("ended drive={} job={} files={} bytes={} bad={}", drive_->path(), state_.job,
                   state_.files, state_.bytes, state_.bad);
  co_return Status();
}

Task<Status> DriveScrub::objects(const cluster::BucketRecord& bucket, std::string after) {
  const auto add = [&](std::string_view name, io::ObjectRecord record, std::vector<Entry>& to) {
    if (record.kind == io::ObjectRecord::Kind::object)
      to.push_back({{bucket.id, std::string(name), 0, 0}, false, std::move(record)});
  };
  RecordPages<Entry> pages(*drive_, bucket.id, add, {.items = kDriveScrubPageEntries},
                           std::move(after));
  while (pages.more()) {
    CO_TRY(auto page, co_await pages.next());
    for (Entry& entry : page) CO_TRY_OK(co_await look_at(bucket, std::move(entry)));
  }
  co_return Status();
}

Task<Status> DriveScrub::slices(const cluster::BucketRecord& bucket,
                                std::optional<SliceKey> after) {
  for (bool more = true; more;) {
    std::vector<Entry> page;
    more = false;
    const auto visit = [&](const SliceKey& key, const io::ObjectRecord& record) {
      more = page.size() == kDriveScrubPageEntries;
      if (more) return false;
      after = key;
      page.push_back({key, true, record});
      return true;
    };
    CO_TRY_OK(co_await drive_->walk_slices(bucket.id, after, visit));
    for (Entry& entry : page) CO_TRY_OK(co_await look_at(bucket, std::move(entry)));
  }
  co_return Status();
}

/// An error: the pass is not to go on now, and comes back to this one.
Task<Status> DriveScrub::look_at(const cluster::BucketRecord& bucket, Entry entry) {
  CO_FAIL_POINT("scrub.file");
  io::FileName file = entry.record.file;
  const Status good = co_await read(entry, file);
  if (!good && !is_bad_file(good.error())) co_return good;
  if (good) {
    co_await read_well(entry, file);
  } else {
    entry.record.file = file;
    co_await note_bad(bucket, entry, good.error());
  }
  state_.passed({raw(bucket.id), entry.slice, entry.key.name, entry.key.set, entry.key.index},
                entry.record.file_bytes());
  co_return co_await save_now_and_then();
}

Task<Result<std::shared_ptr<OpenObject>>> DriveScrub::open(const Entry& entry) {
  if (entry.slice) co_return co_await drive_->open_slice(entry.key);
  co_return co_await drive_->open_object(entry.key.bucket, entry.key.name);
}

/// Reads a file from its first byte to its last. `file`: which one that was, by now.
Task<Status> DriveScrub::read(const Entry& entry, io::FileName& file) {
  CO_TRY_OK(co_await pay(ScrubState::kFileCost));
  CO_TRY(const auto object, co_await open(entry));
  file = object ? object->record().file : io::FileName();
  if (!object) co_return Status();  // gone meanwhile
  CO_TRY_OK(co_await read_through(object, [this](std::uint64_t bytes) { return pay(bytes); }));
  if (!entry.slice || entry.key.index == io::kFullCopy) co_return Status();
  const auto label = co_await drive_->slice_label(entry.key);
  if (!label && label.error().code == Errc::object_not_found) {
    file = {};
    co_return Status();
  }
  CO_TRY_OK(label);
  co_return Status();
}

Task<Result<std::optional<io::ObjectRecord>>> DriveScrub::find(SliceKey key, bool slice) {
  if (slice) co_return co_await drive_->find_slice(std::move(key));
  CO_TRY(auto found, co_await drive_->find(key.bucket, key.name));
  if (found && found->kind != io::ObjectRecord::Kind::object) co_return std::nullopt;
  co_return std::move(found);
}

Task<void> DriveScrub::note_bad(const cluster::BucketRecord& bucket, const Entry& entry,
                                Error error) {
  const auto now = co_await find(entry.key, entry.slice);
  if (!now || !*now || (*now)->file != entry.record.file) co_return;  // another has its place
  if (node_.view.state()->bmd.find(bucket.id) == nullptr) co_return;
  ScrubFinding finding;
  finding.key = entry.key;
  finding.slice = entry.slice;
  finding.file = entry.record.file;
  finding.found_ns = wall_ns();
  finding.error = error.message;
  take_over();
  state_.add(std::move(finding));
  board_->show(state_, true);
  scrub_log().error("bad file drive={} file={} object={} slice={} err={}", drive_->path(),
                    entry.record.file.path(), entry.key.name,
                    entry.slice ? std::to_string(entry.key.index) : "-", error.message);
  co_await save();
  if (SAFETY("safety.scrub_repairs")) co_await have_repaired(bucket, entry);
}

Task<void> DriveScrub::have_repaired(const cluster::BucketRecord& bucket, const Entry& entry) {
  if (entry.slice) {
    node_.bad_slices.add(entry.key);  // repair_requested() reports it to the owner
    co_return;
  }
  const ObjectName name = name_in(bucket, entry.key.name);
  if (api::copies_of(bucket.props) >= 2) {
    node_.store.mirror().report_bad(name, *drive_);  // keep_mirrors() has it
    co_return;
  }
  if (bucket.replica_count().many()) {
    co_await mend_from_others(node_, name);
    co_return;
  }
  const auto evicted = co_await evict_unreadable(node_, name);
  if (evicted && *evicted) co_return;
  scrub_log().error("no other copy of it object={}", entry.key.name);
}

/// Sees what became of findings. Slices that are bad still count as missing, also after a start.
Task<void> DriveScrub::settle() {
  settled_ = node_.clock.boot_time();
  bool changed = false;
  for (ScrubFinding& finding : state_.found) {
    if (finding.outcome != ScrubFinding::Outcome::open) continue;
    if (finding.key.name.empty()) continue;  // stands for further ones
    const auto now = co_await find(finding.key, finding.slice);
    const bool stays = now && *now && (*now)->file == finding.file;
    if (stays && finding.slice && SAFETY("safety.scrub_repairs")) node_.bad_slices.add(finding.key);
    if (!now || stays) continue;
    finding.outcome = ScrubFinding::Outcome::gone;
    if (*now) finding.outcome = ScrubFinding::Outcome::repaired;
    if (!*now && finding.slice) {
      const auto elsewhere = co_await node_.store.slices().find(finding.key);
      if (elsewhere && *elsewhere) finding.outcome = ScrubFinding::Outcome::repaired;
    }
    finding.ended_ns = wall_ns();
    scrub_log().info("{} drive={} file={} object={}", to_string(finding.outcome), drive_->path(),
                     finding.file.path(), finding.key.name);
    changed = true;
  }
  if (changed) co_await save();
}

Task<void> DriveScrub::run() {
  // At once: copies of the drive are not counted before.
  bool known = drive_->in_service() && co_await load();
  while (node_.store.drive_at(drive_->path()) == drive_) {
    co_await pause_until(next_tick(kDriveScrubLookEvery));
    if (!drive_->in_service()) continue;
    if (!known) known = co_await load();
    if (!known) continue;
    if (node_.clock.boot_time() - settled_ > kSettleEvery) co_await settle();
    Status done;
    if (is_due()) done = co_await begin();
    if (done && state_.runs() && go_on()) done = co_await pass();
    board_->rate = 0;
    if (take_over()) co_await save();
    board_->show(state_, true);
    if (!done && done.error().code != Errc::cancelled)
      scrub_log().info("goes on later drive={} err={}", drive_->path(), done.error().message);
  }
}

}  // namespace

void note_bad_file(TargetNode& node, const Drive& drive, const ObjectName& name,
                   const io::FileName& file, const Error& why) {
  const auto board = node.scrub.of(drive.path());
  if (!board->known()) return;  // the next reader comes after
  ScrubState state = board->state();
  const bool has = std::any_of(state.found.begin(), state.found.end(), [&](const auto& each) {
    return each.outcome == ScrubFinding::Outcome::open && each.file == file;
  });
  if (has) return;
  ScrubFinding finding;
  finding.key = {name.bucket, name.object, 0, 0};
  finding.file = file;
  finding.found_ns = node.clock.wall_time().count();
  finding.error = why.message;
  state.add(std::move(finding));
  board->show(state, true);
  scrub_log().warn("bad file drive={} file={} object={} found_by=reader err={}", drive.path(),
                   file.path(), name.object, why.message);
}

Task<void> keep_scrubbed(TargetNode& node, std::shared_ptr<Drive> drive, bool came) {
  DriveScrub scrub(node, std::move(drive), came);
  co_await scrub.run();
}

}  // namespace tarn::target
