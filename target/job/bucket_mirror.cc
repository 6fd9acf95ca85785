// The copies of a whole bucket: a pass that puts each name right, what starts it, and counting.

#include "target/job/bucket_mirror.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/api/mirror_props.h"
#include "common/base/encoding.h"
#include "common/base/event.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/node/job_stream.h"
#include "target/rebalance/resilver.h"
#include "target/repair/copy_again.h"
#include "target/repair/drive_scrub.h"
#include "target/replica/away_drive.h"
#include "target/replica/node_copies.h"
#include "target/replica/uncounted_copies.h"
#include "target/replica/uncounted_drives.h"

namespace tarn::target {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::size_t kBucketMirrorPageNames = 1000;
constexpr std::size_t kWorkers = 4;
constexpr std::size_t kBucketMirrorOrderBytesMax = 64U << 10U;
constexpr auto kBucketMirrorLookEvery = 500ms;
constexpr auto kBucketMirrorTryAgainAfter = 5s;
constexpr auto kHangPatience = 60s;  // a drive that hangs mostly comes back

spdlog::logger& mirror_log() { return obs::log("mirror"); }

/// Names with what each drive has of them, in the order of the drives.
struct NamePage {
  std::map<std::string, CopyViews> names;
  bool more = false;
  bool complete = true;  ///< every drive that can be used has been asked
  std::string next;      ///< start of the following page
  /// Generation and size in the newest record of a name that any drive has shown.
  struct Size {
    Generation of;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Size> sizes;
  std::map<std::string, std::set<std::size_t>> bad;  ///< drives whose copies are known to be bad

  void take_size(const std::string& name, const io::ObjectRecord& record) {
    Size& size = sizes[name];
    if (!(record.generation < size.of)) size = {record.generation, record.size};
  }
};

Task<Result<Drive::Listing>> list_drive(Drive* drive, BucketId bucket, std::string after) {
  if (!drive->in_service())
    co_return fail(Errc::unavailable, "drive {} is out of service", drive->path());
  co_return co_await drive->list(bucket, "", std::move(after), kBucketMirrorPageNames);
}

Task<NamePage> bucket_mirror_next_page(ObjectStore& store, BucketId bucket,
                                       const std::string& after,
                                       const UncountedCopies& uncounted = {}) {
  std::vector<Task<Result<Drive::Listing>>> lists;
  const auto drives = store.drives();
  lists.reserve(drives.size());
  for (const auto& drive : drives) lists.push_back(list_drive(drive.get(), bucket, after));
  auto parts = co_await gather(std::move(lists));
  CopyViews blank(parts.size() + store.missing().size());
  std::optional<std::string> bound;  // beyond it some drive has not listed all yet
  NamePage page;
  for (std::size_t i = 0; i < blank.size(); ++i) {
    if (i >= parts.size() || !parts[i]) {
      blank[i].standing = Standing::away;
      page.complete = page.complete && (i >= parts.size() || !drives[i]->in_service());
      continue;
    }
    blank[i].standing = store.mirror().standing(*drives[i]);
    blank[i].takes = !drives[i]->suspect();
    if (!parts[i]->more) continue;
    const std::string& last = parts[i]->entries.back().name;
    if (!bound || last < *bound) bound = last;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) continue;
    for (const auto& entry : parts[i]->entries) {
      if (bound && entry.name > *bound) break;
      CopyViews& views = page.names.try_emplace(entry.name, blank).first->second;
      views[i].record = CopyView::Record{entry.record.generation,
                                         entry.record.kind == io::ObjectRecord::Kind::object};
      page.take_size(entry.name, entry.record);
      if (uncounted.contains(*drives[i], entry.record)) page.bad[entry.name].insert(i);
    }
  }
  page.more = bound.has_value();
  if (bound) page.next = *bound;
  co_return page;
}

/// The names of a page that repair() is to look at.
std::vector<std::string> names_to_change(const NamePage& page, std::size_t wanted,
                                         MirrorProgress& progress) {
  std::vector<std::string> out;
  for (const auto& [name, views] : page.names) {
    const CopyVerdict verdict = judge_copies(views, 0);
    if (verdict.kind == CopyVerdict::Kind::found) ++progress.objects;
    if (verdict.kind == CopyVerdict::Kind::unavailable) ++progress.unknown;
    const CopyPlan plan = plan_copies(views, verdict, wanted);
    if (plan.missing > 0) ++progress.missing;
    if (!verdict.older.empty() || !plan.add.empty() || !plan.remove.empty()) out.push_back(name);
  }
  return out;
}

/// Returns nothing if no copy of the name is an object.
std::optional<api::ObjectState> count_name(const NamePage& page, const std::string& name,
                                           std::size_t wanted, api::CountedCopies& into) {
  const CopyVerdict verdict = judge_copies(page.names.at(name), 0);
  const std::uint64_t bytes = page.sizes.at(name).bytes;
  std::size_t good = verdict.holders.size();
  if (const auto bad = page.bad.find(name); bad != page.bad.end())
    good -= static_cast<std::size_t>(
        std::count_if(verdict.holders.begin(), verdict.holders.end(),
                      [&](std::size_t holder) { return bad->second.contains(holder); }));
  if (verdict.kind == CopyVerdict::Kind::none) return std::nullopt;
  if (verdict.kind == CopyVerdict::Kind::found && good > 0)
    return into.counts.add(good, wanted, bytes);
  into.lost.add(name);
  return into.counts.add_lost(bytes);
}

/// The list that a request for counts wants, if any.
Result<std::optional<api::StateList>> list_wanted(const http::Request& request) {
  const std::string word(request.query().get("list"));
  if (word.empty()) return std::nullopt;
  const auto state = api::parse_object_state(word);
  const auto max = parse_u64(request.query().get("list_max"));
  if (!state || !max)
    return fail(Errc::invalid_argument, "redundancy: list is a state, with list_max");
  return api::StateList{*state, {std::string(request.query().get("after")), *max}};
}

/// Fails only when the job is to stop.
Task<Status> mirror_name(TargetNode& node, ObjectName name, const std::stop_token& stop,
                         MirrorProgress& progress) {
  if (stop.stop_requested()) co_return fail(Errc::cancelled, "the job was told to stop");
  const auto done = co_await node.store.mirror().repair(name, name.copies, nullptr);
  if (done) {
    progress.bytes += done->bytes;
    if (done->added + done->removed > 0) ++progress.changed;
    co_return Status();
  }
  mirror_log().warn("copies not put right object={} err={}", name.object, done.error().message);
  if (progress.failed++ == 0) progress.first_error = done.error().message;
  co_return Status();
}

/// A make-n-copies under way, for one request and its loop.
class MirrorJob {
 public:
  MirrorJob(TargetNode& node, const cluster::BucketRecord& bucket,
            const asio::any_io_executor& executor)
      : node_(node), bucket_(bucket), lines_(executor, [this] { return line(); }) {}

  [[nodiscard]] JobLines& lines() { return lines_; }
  Task<Status> run();

 private:
  [[nodiscard]] std::string line() const;

  TargetNode& node_;
  const cluster::BucketRecord bucket_;
  MirrorProgress progress_;
  bool done_ = false;
  std::string error_;
  JobLines lines_;
};

Task<Status> MirrorJob::run() {
  const Status ended = co_await mirror_names(node_, bucket_, lines_.stop().get_token(), progress_);
  if (!ended) {
    error_ = ended.error().message;
  } else if (progress_.failed > 0) {
    error_ =
        fmt::format("{} objects failed, the first: {}", progress_.failed, progress_.first_error);
  } else if (progress_.missing > 0) {
    error_ = fmt::format("{} objects have fewer copies than wanted: too few drives take one",
                         progress_.missing);
  }
  done_ = true;
  lines_.end();
  co_return Status();
}

std::string MirrorJob::line() const {
  api::CopyProgress line;
  line.objects = progress_.changed;
  line.bytes = progress_.bytes;
  line.failed = progress_.failed;
  line.done = done_;
  line.error = error_;
  return json(line).dump();
}

struct Passed {
  bool good = true;                           ///< all is done that could be done
  std::uint64_t unknown = 0;                  ///< names that could not be judged
  std::map<BucketId, std::uint8_t> complete;  ///< buckets of which each name has its copies
};

/// All mirrored buckets once.
Task<Passed> bucket_mirror_pass(TargetNode& node) {
  Passed passed;
  const auto state = node.view.state();
  for (const auto& [name, bucket] : state->bmd.buckets) {
    const std::uint8_t copies = api::copies_of(bucket.props);
    if (copies == 0) continue;
    MirrorProgress progress;
    const Status ended = co_await mirror_names(node, bucket, {}, progress);
    const bool good = ended && progress.failed == 0;
    if (good && progress.missing == 0 && progress.unknown == 0) passed.complete[bucket.id] = copies;
    passed.good = passed.good && good;
    passed.unknown += progress.unknown;
    if (progress.changed > 0 || progress.missing > 0 || progress.failed > 0)
      mirror_log().info(
          "pass over bucket={} objects={} changed={} bytes={} missing={} failed={} err={}",
          name.display(), progress.objects, progress.changed, progress.bytes, progress.missing,
          progress.failed, ended ? "" : ended.error().message);
  }
  co_return passed;
}

/// Patience with drives that hang: one that began lately may well come back.
class HangPatience {
 public:
  bool waits(const ObjectStore& store, std::chrono::steady_clock::time_point now) {
    const auto drives = store.drives();
    const bool any =
        std::any_of(drives.begin(), drives.end(), [](const auto& drive) { return drive->hangs(); });
    if (!any) since_.reset();
    if (any && !since_) since_ = now;
    return any && now - *since_ < kHangPatience;
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
};

std::string drives_in_use(const ObjectStore& store) {
  std::string out;
  for (const auto& drive : store.drives())
    if (drive->in_service()) out += drive->id() + " ";
  return out;
}

bool all_in_use(const ObjectStore& store) {
  const auto drives = store.drives();
  return store.missing().empty() && std::all_of(drives.begin(), drives.end(), [](const auto& each) {
           return each->in_service();
         });
}

/// Notes that the copy of a name on this drive no longer counts, until it is another file. False:
/// it has none.
Task<bool> note_bad_on(TargetNode& node, Drive& drive, const ObjectName& name) {
  if (!drive.in_service()) co_return false;
  const auto found = co_await drive.find(name.bucket, name.object);
  if (!found || !*found || (*found)->kind != io::ObjectRecord::Kind::object) co_return false;
  const Error why{Errc::corrupt, "a reader could not read it as it was stored"};
  note_bad_file(node, drive, name, (*found)->file, why);
  co_return true;
}

/// The same of what a reader has met. An only copy may lie on another drive than its place.
Task<void> note_bad_copy(TargetNode& node, const Mirror::Bad& bad) {
  const auto drives = node.store.drives();
  for (const auto& drive : drives) {
    if (drive.get() != bad.drive) continue;
    const bool noted = co_await note_bad_on(node, *drive, bad.name);
    if (noted || bad.name.copies > 0) co_return;
  }
  if (bad.name.copies > 0) co_return;
  for (const auto& drive : drives) co_await note_bad_on(node, *drive, bad.name);
}

/// Evicts an object with an upstream, when no copy here can be read. True: it is cold now.
Task<bool> fetch_instead(TargetNode& node, const ObjectName& name) {
  const auto done = co_await evict_unreadable(node, name);
  if (!done)
    mirror_log().warn("bad file stays object={} err={}", name.object, done.error().message);
  co_return done && *done;
}

Task<void> mend_bad_copies(TargetNode& node) {
  for (const Mirror::Bad& bad : node.store.mirror().take_bad()) {
    const bool on_nodes = replica_count_of(node, bad.name.bucket).many();
    if (bad.name.copies == 0 && on_nodes) {
      co_await mend_from_others(node, bad.name);
      continue;
    }
    co_await note_bad_copy(node, bad);
    if (bad.name.copies == 0) {  // there is no other
      co_await fetch_instead(node, bad.name);
      continue;
    }
    const auto mended = co_await node.store.mirror().repair(bad.name, bad.name.copies, bad.drive);
    if (!mended && on_nodes) {
      co_await mend_from_others(node, bad.name);
      continue;
    }
    const bool is_cold = !mended && co_await fetch_instead(node, bad.name);
    if (mended)
      mirror_log().info("bad copy made anew object={} drive={}", bad.name.object,
                        bad.drive->path());
    else if (!is_cold)
      mirror_log().error("bad copy stays object={} drive={} err={}", bad.name.object,
                         bad.drive->path(), mended.error().message);
  }
}

}  // namespace

Task<Status> mirror_names(TargetNode& node, cluster::BucketRecord bucket, std::stop_token stop,
                          MirrorProgress& progress) {
  std::string after;
  for (bool more = true; more;) {
    if (stop.stop_requested()) co_return fail(Errc::cancelled, "the job was told to stop");
    const auto state = node.view.state();
    const auto* now = state->bmd.find(bucket.id);
    if (now == nullptr) co_return Status();  // destroyed meanwhile
    const NamePage page = co_await bucket_mirror_next_page(node.store, bucket.id, after);
    if (!page.complete) co_return fail(Errc::unavailable, "a drive does not say what it holds");
    const std::uint8_t copies = api::copies_of(now->props);
    if (copies == 0) co_return Status();
    const auto names = names_to_change(page, copies, progress);
    const auto mirror = [&](std::size_t i) {
      ObjectName name = name_in(bucket, names[i]);
      name.copies = copies;
      return mirror_name(node, std::move(name), stop, progress);
    };
    CO_TRY_OK(co_await gather_at_most(kWorkers, names.size(), mirror));
    more = page.more;
    after = page.next;
  }
  co_return Status();
}

Task<Status> mirror_bucket(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kBucketMirrorOrderBytesMax));
  const json order = json::parse(body, nullptr, false);
  if (!order.is_object() || !order.contains("job") || !order.contains("bucket") ||
      !order.contains("bmd"))
    co_return fail(Errc::invalid_argument, "mirror: job, bucket and bmd are required");
  const std::string job = order["job"].get<std::string>();
  CO_TRY(const auto state, co_await node.view.at_least(0, order["bmd"].get<std::uint64_t>()));
  const auto* bucket = state->bmd.find(BucketId{order["bucket"].get<std::uint64_t>()});
  if (bucket == nullptr)
    co_return fail(Errc::bucket_not_found, "the bucket was destroyed meanwhile");
  MirrorJob running(node, *bucket, co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, job, running);
}

Task<Status> count_copies(TargetNode& node, http::Request& request) {
  const auto bucket = parse_u64(request.query().get("bucket"));
  const auto bmd_version = parse_u64(request.query().get("bmd"));
  if (!bucket || !bmd_version)
    co_return fail(Errc::invalid_argument, "redundancy: bucket and bmd are required");
  CO_TRY(const auto state, co_await node.view.at_least(0, *bmd_version));
  const auto* record = state->bmd.find(BucketId{*bucket});
  if (record == nullptr) co_return fail(Errc::bucket_not_found, "the bucket does not exist");
  const std::uint8_t copies = api::copies_of(record->props);
  const std::size_t wanted = std::max<std::size_t>(1, copies);
  const auto lost_max = parse_u64(request.query().get("lost_max"));
  api::CountedCopies counted;
  counted.lost = {std::string(request.query().get("lost_after")), lost_max.value_or(0)};
  CO_TRY(auto list, list_wanted(request));
  api::Uncounted uncounted = uncounted_here(node, record->id, copies);
  std::string after = list ? std::string(request.query().get("after")) : "";
  for (bool more = true; more;) {
    CO_TRY(const auto bad, UncountedCopies::of(node, *record));
    const NamePage page =
        co_await bucket_mirror_next_page(node.store, BucketId{*bucket}, after, bad);
    for (const auto& each : page.names) {
      const auto counted_as = count_name(page, each.first, wanted, counted);
      if (list && counted_as) list->add(*counted_as, each.first);
    }
    more = page.more && (!list || !list->names.more());
    after = page.next;
  }
  uncounted.take(uncounted_here(node, record->id, copies));
  if (list) counted.list = std::move(list->names);
  counted.counts.drives_away = uncounted.drives;
  counted.all_seen = uncounted.drives == 0 || (!uncounted.expected && !uncounted.unseen);
  http::Response response(200, http::kJson, json(counted).dump() + "\n");
  co_return co_await request.exchange.respond(std::move(response));
}

Task<void> keep_mirrors(TargetNode& node) {
  Mirror& mirror = node.store.mirror();
  std::uint64_t passed = 0;
  std::string drives;
  HangPatience patience;
  auto not_before = std::chrono::steady_clock::now();
  static_cast<void>(co_await mirror.save_remembered());
  while (true) {
    co_await pause_until(next_tick(kBucketMirrorLookEvery));
    co_await mend_bad_copies(node);
    const auto now = std::chrono::steady_clock::now();
    if (std::exchange(drives, drives_in_use(node.store)) != drives) mirror.disturb();
    const std::uint64_t due = mirror.disturbances();
    if (due == passed || now < not_before || patience.waits(node.store, now)) continue;
    const auto stale = mirror.stale();
    const bool all_there = all_in_use(node.store);
    Passed done = co_await bucket_mirror_pass(node);
    const auto then = std::chrono::steady_clock::now();
    // A tenth of the time at most, however often writes have to do with fewer copies.
    not_before = then + (done.good ? 10 * (then - now) : kBucketMirrorTryAgainAfter);
    if (!done.good) continue;
    passed = due;
    // With a drive away, names that lie there alone are not known.
    if (all_there && all_in_use(node.store))
      static_cast<void>(co_await mirror.complete(std::move(done.complete), due));
    if (stale.empty()) continue;
    // Whatever came in between leads to another pass.
    if (mirror.disturbances() != due || mirror.stale() != stale) continue;
    if (done.unknown > 0) {
      mirror_log().warn("drives stay stale until all are there names={}", done.unknown);
      continue;
    }
    const bool dropped = co_await drop_overtaken(node);
    if (!dropped && node.store.missing().empty()) mirror.disturb();
    if (!dropped) continue;
    const Status noted = co_await mirror.caught_up(stale);
    if (noted) static_cast<void>(co_await clear_misplaced_marks(node));
  }
}

}  // namespace tarn::target
