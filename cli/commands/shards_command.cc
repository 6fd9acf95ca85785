#include <algorithm>
#include <atomic>
#include <deque>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/shards/shard_cutter.h"
#include "cli/shards/shard_names.h"
#include "cli/shards/spool.h"
#include "cli/shards/tar_stream.h"
#include "cli/tools/plan.h"
#include "cli/transfer/batch.h"
#include "cli/transfer/transfer.h"
#include "common/base/encoding.h"
#include "common/base/mutex.h"

namespace tarn::cli {
namespace {

constexpr std::size_t kShardsBufferBytes = 1U << 20U;
constexpr const char* kRetryFor = "5m";

struct ShardsArguments {
  std::string where;
  std::string input = "-";
  std::string size = "1GiB";
  std::string hold = "4GiB";
  std::uint64_t samples = 0;
  unsigned jobs = 4;
};

/// One worker cuts, all other workers send; at most one shard waits between them, so the spool
/// holds the bytes that the cutter holds back and jobs + 2 shards.
class ShardRun {
 public:
  ShardRun(Session& session, const ShardNames& names, CutLimits limits, Progress& progress,
           Spool& spool)
      : session_(session), names_(names), progress_(progress), spool_(spool), cutter_(limits) {}

  void run(Source& input, unsigned jobs);

  struct Tally {
    std::uint64_t shards = 0;
    std::uint64_t sent = 0;
    std::uint64_t skipped = 0;
    std::uint64_t bytes_sent = 0;
    std::uint64_t bytes = 0;
    std::optional<Error> failure;
  };
  [[nodiscard]] Tally result() const {
    const MutexLock lock(mutex_);
    return result_;
  }
  [[nodiscard]] const ShardCutter& cutter() const { return cutter_; }

 private:
  Status cut(Source& input);
  Status spool_data(TarReader& reader);
  Status pass_on_shards();
  bool push(std::unique_ptr<ShardBody> shard);
  std::unique_ptr<ShardBody> pop();
  void close();
  void fail_with(Error error);

  Task<void> cut_all(Source& input);
  Task<void> send_all();
  Task<Result<ItemDone>> send(ShardBody& shard, const Place& place, Meter& meter);
  void take(const Place& place, const ShardBody& shard, const Result<ItemDone>& came);

  Session& session_;
  const ShardNames& names_;
  Progress& progress_;
  Spool& spool_;
  ShardCutter cutter_;

  mutable Mutex mutex_;
  ConditionVariable moved_;
  std::deque<std::unique_ptr<ShardBody>> waiting_ TARN_GUARDED_BY(mutex_);
  bool closed_ TARN_GUARDED_BY(mutex_) = false;
  Tally result_ TARN_GUARDED_BY(mutex_);
};

bool ShardRun::push(std::unique_ptr<ShardBody> shard) {
  MutexLock lock(mutex_);
  while (!waiting_.empty() && !closed_) moved_.wait(lock);
  if (closed_) return false;
  waiting_.push_back(std::move(shard));
  moved_.notify_all();
  return true;
}

std::unique_ptr<ShardBody> ShardRun::pop() {
  MutexLock lock(mutex_);
  while (waiting_.empty() && !closed_) moved_.wait(lock);
  if (waiting_.empty() || result_.failure) return nullptr;
  auto shard = std::move(waiting_.front());
  waiting_.pop_front();
  moved_.notify_all();
  return shard;
}

void ShardRun::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  moved_.notify_all();
}

void ShardRun::fail_with(Error error) {
  const MutexLock lock(mutex_);
  if (!result_.failure) result_.failure = std::move(error);
  closed_ = true;
  moved_.notify_all();
}

Status ShardRun::spool_data(TarReader& reader) {
  std::string buffer(kShardsBufferBytes, '\0');
  const auto bytes = std::as_writable_bytes(std::span(buffer));
  while (true) {
    TRY(const std::size_t got, reader.read_data(bytes));
    if (got == 0) return {};
    TRY_OK(spool_.write(bytes.first(got)));
  }
}

/// cancelled when a sender has failed: its error is known already.
Status ShardRun::pass_on_shards() {
  while (auto plan = cutter_.take()) {
    auto shard = std::make_unique<ShardBody>(spool_, std::move(*plan));
    if (!push(std::move(shard))) return fail(Errc::cancelled, "stopped");
  }
  return {};
}

Status ShardRun::cut(Source& input) {
  TarReader reader([&input](std::span<std::byte> into) { return input.read(into); });
  while (true) {
    TRY(const auto member, reader.next());
    if (!member) break;
    const std::uint64_t from = spool_.size();
    TRY_OK(spool_.write(std::as_bytes(std::span(member->head))));
    TRY_OK(spool_data(reader));
    TRY_OK(cutter_.add(*member, {from, spool_.size() - from}, reader.globals()));
    TRY_OK(pass_on_shards());
    const MutexLock lock(mutex_);
    if (result_.failure) return fail(Errc::cancelled, "stopped");
  }
  cutter_.finish();
  return pass_on_shards();
}

Task<void> ShardRun::cut_all(Source& input) {
  const Status done = cut(input);
  if (done)
    close();
  else
    fail_with(done.error());
  co_return;
}

Task<Result<ItemDone>> ShardRun::send(ShardBody& shard, const Place& place, Meter& meter) {
  const std::uint64_t size = shard.plan().bytes;
  meter.begin(size, 0);
  CO_TRY(const std::uint64_t hash, hash_of(shard));
  const auto there = co_await head_object(session_, place);
  if (!there && there.error().code != Errc::object_not_found) co_return fail(there.error());
  if (there && there->stored.size == size && there->stored.checksum == hex64(hash)) {
    meter.at(size);
    co_return ItemDone{ItemDone::Outcome::skipped, 0};
  }
  UploadOptions how{Overwrite::allowed, hex64(hash), &meter};
  CO_TRY_OK(co_await upload(session_, place, shard, std::move(how)));
  co_return ItemDone{ItemDone::Outcome::done, size};
}

void ShardRun::take(const Place& place, const ShardBody& shard, const Result<ItemDone>& came) {
  if (!came)
    return fail_with(
        {came.error().code, fmt::format("{}: {}", place.display(), came.error().message)});
  const MutexLock lock(mutex_);
  ++result_.shards;
  ++(came->outcome == ItemDone::Outcome::done ? result_.sent : result_.skipped);
  result_.bytes += shard.plan().bytes;
  result_.bytes_sent += came->bytes;
}

Task<void> ShardRun::send_all() {
  while (const auto shard = pop()) {
    const auto place = names_.place(shard->plan().number);
    if (!place) {
      fail_with(
          {Errc::invalid_argument,
           fmt::format("there are more shards than names: shard {} has none; number them with "
                       "%06d, or make --size larger",
                       shard->plan().number)});
      break;
    }
    Progress::Line line(progress_, place->display());
    const auto came = co_await send(*shard, *place, line.meter());
    take(*place, *shard, came);
  }
}

void ShardRun::run(Source& input, unsigned jobs) {
  session_.run_workers(jobs + 1,
                       [&](std::size_t i) { return i == 0 ? cut_all(input) : send_all(); });
  // Shards that no worker took release their part of the spool.
  const MutexLock lock(mutex_);
  waiting_.clear();
}

/// A shard after the last one is of another run: a reader of all would read samples twice.
Status check_none_after(Session& session, const ShardNames& names, std::uint64_t shards) {
  const auto next = names.place(shards);
  if (!next) return {};
  const auto there = session.run(head_object(session, *next));
  if (!there && there.error().code == Errc::object_not_found) return {};
  if (!there) return fail(there.error());
  return fail(
      Errc::conflict,
      "all {} shards are stored, but {} is there, too, and is none of them: it is left from "
      "another run; remove it and those after it with tarn rm",
      shards, next->display());
}

Exit report(Session& session, const ShardNames& names, const ShardRun& run, double seconds,
            const GlobalOptions& options) {
  const auto& result = run.result();
  if (result.failure)
    return complain("shards",
                    {result.failure->code,
                     fmt::format("{} ({} shards are stored; the same command again goes on from "
                                 "there)",
                                 result.failure->message, result.shards)});
  const Status none_after = check_none_after(session, names, result.shards);
  if (options.json)
    print_json({{"shards", result.shards},
                {"samples", run.cutter().samples()},
                {"bytes", result.bytes},
                {"sent", result.sent},
                {"bytes_sent", result.bytes_sent},
                {"skipped", result.skipped},
                {"largest_sample", run.cutter().largest_sample()},
                {"seconds", seconds}});
  else if (!options.quiet)
    fmt::print("{} shards with {} samples ({}): {} sent ({} in {:.1f} s), {} were there already\n",
               result.shards, run.cutter().samples(), readable_size(result.bytes), result.sent,
               readable_size(result.bytes_sent), seconds, result.skipped);
  return none_after ? Exit::ok : complain("shards", none_after.error());
}

Result<CutLimits> limits_of(const ShardsArguments& arguments, const Spool& spool) {
  CutLimits limits;
  TRY(limits.shard_bytes_max, parse_amount(arguments.size));
  TRY(limits.hold_bytes, parse_amount(arguments.hold));
  limits.samples_max = arguments.samples;
  if (limits.shard_bytes_max < 4 * kTarBlock)
    return fail(Errc::invalid_argument, "--size {}: a shard has at least {} bytes", arguments.size,
                4 * kTarBlock);
  // Bytes held back do not change the result, only whether unsorted files can be brought together.
  TRY(const std::uint64_t room, spool.room());
  const std::uint64_t in_flight = (arguments.jobs + 2) * limits.shard_bytes_max;
  const std::uint64_t left = room > in_flight ? room - in_flight : 0;
  limits.hold_bytes = std::min(limits.hold_bytes, left / 2);
  return limits;
}

Exit cut_and_send(Session& session, const ShardNames& names, const ShardsArguments& arguments,
                  const GlobalOptions& options) {
  if (arguments.input == "-" && ::isatty(STDIN_FILENO) != 0)
    return complain("shards", {Errc::invalid_argument,
                               "the standard input is a terminal: write tar --sort=name -cf - "
                               "DIRECTORY | tarshards URL"});
  auto input = Source::open(arguments.input);
  if (!input) return complain("shards", input.error());
  const auto spool = Spool::create("");
  if (!spool) return complain("shards", spool.error());
  const auto limits = limits_of(arguments, **spool);
  if (!limits) return complain("shards", limits.error());
  Progress progress("shards", progress_style(options.quiet));
  ShardRun run(session, names, *limits, progress, **spool);
  const auto start = std::chrono::steady_clock::now();
  run.run(*input, arguments.jobs);
  progress.finish();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report(session, names, run, seconds, options);
}

Exit shards(const ShardsArguments& arguments, GlobalOptions options) {
  const auto names = ShardNames::parse(arguments.where);
  if (!names) return complain("shards", names.error());
  if (!names->endpoint().empty()) options.endpoint = names->endpoint();
  if (options.retry_for.empty()) options.retry_for = kRetryFor;
  const auto session = Session::open(options);
  if (!session) return complain("shards", session.error());
  return cut_and_send(**session, *names, arguments, options);
}

}  // namespace

void add_shards_command(const CommandLine& line) {
  auto* command = line.app.add_subcommand(
      "shards", "Cut a tar stream into shards, whole samples each, and store them");
  command->footer(
      "Also installed as tarshards. Samples are files of one directory whose names are the same "
      "up\n"
      "to the first dot. The same command again stores only what is missing.\n"
      "Examples:\n"
      "  tar --sort=name -cf - dataset | tarshards http://host:8080/data/train-%06d.tar\n"
      "  tarn shards data/train-%06d.tar dataset.tar --size 256MiB");
  const auto arguments = std::make_shared<ShardsArguments>();
  command
      ->add_option("URL", arguments->where,
                   "http://HOST:PORT/BUCKET/NAME-%06d.tar, or BUCKET/NAME-%06d.tar at --endpoint")
      ->required();
  command->add_option("TAR", arguments->input, "a tar file; else the standard input");
  command->add_option("--size", arguments->size,
                      "bytes of a shard at most, unless one sample is larger (1GiB)");
  command->add_option("--samples", arguments->samples, "samples in a shard at most (any number)");
  command->add_option(
      "--hold", arguments->hold,
      "how much of the stream is held back in TMPDIR to bring the files of a sample "
      "together (4GiB)");
  add_jobs_option(command, arguments->jobs);
  command->callback([arguments, &options = line.options, &chosen = line.chosen] {
    chosen = [arguments, &options] { return shards(*arguments, options); };
  });
}

}  // namespace tarn::cli
