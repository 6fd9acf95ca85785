#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "cli/base/listing.h"
#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/drives/drive_scan.h"
#include "cli/drives/local_drives.h"
#include "cli/tools/bench.h"
#include "cli/tools/plan.h"
#include "cli/transfer/batch.h"
#include "cli/transfer/transfer.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

struct BenchArguments {
  std::string where;  ///< BUCKET[/PREFIX]
  std::vector<std::string> drives;
  bool no_drives = false;
  std::string bytes = "1GiB";
  unsigned jobs = 0;
};

/// An object that is read, with the place of its file if the drive is on this machine.
struct Subject {
  Place place;
  BenchFile file;
  std::size_t drive = 0;
};

struct Measured {
  std::vector<DriveRate> drives;     ///< empty when they were not measured
  std::size_t drives_elsewhere = 0;  ///< of the cluster, when its own were looked for
  BenchFigures figures;
  BatchResult through_tarn;
  std::uint64_t warm = 0;  ///< files that stayed in memory
};

/// Takes the bytes and forgets them; their checksum is compared all the same.
class Nowhere : public Destination {
 public:
  Status write(std::span<const std::byte>) override { return {}; }
  Result<bool> restart() override { return true; }
  Status publish() override { return {}; }
};

bool wanted(const Place& filter, const std::string& bucket, const std::string& name) {
  return filter.bucket.empty() || (bucket == filter.bucket && name.starts_with(filter.object));
}

/// Files of the drives, at most `bytes` a drive, the drives taking turns.
Result<std::vector<Subject>> subjects_on_drives(const std::vector<std::string>& drives,
                                                const Place& filter, std::uint64_t bytes) {
  DriveScan scan([](const Error& error) { complain("bench", error); });
  for (const std::string& drive : drives) TRY_OK(scan.add(drive));
  std::vector<std::vector<Subject>> on(drives.size());
  std::vector<std::uint64_t> taken(drives.size(), 0);
  for (const auto& [key, copies] : scan.objects()) {
    if (key.first.find('@') != std::string::npos || !wanted(filter, key.first, key.second))
      continue;
    if (copies.empty() || copies.front().slices != nullptr) continue;  // in slices
    const FoundFile& file = copies.front();
    const auto drive = static_cast<std::size_t>(
        std::find_if(drives.begin(), drives.end(),
                     [&](const std::string& each) { return file.path.starts_with(each + "/"); }) -
        drives.begin());
    if (drive == drives.size() || file.size == 0 || taken[drive] >= bytes) continue;
    taken[drive] += file.size;
    on[drive].push_back({{key.first, key.second}, {file.path, file.size}, drive});
  }
  std::vector<Subject> out;
  for (std::size_t turn = 0, before = 1; out.size() != before; ++turn) {
    before = out.size();
    for (auto& each : on)
      if (turn < each.size()) out.push_back(std::move(each[turn]));
  }
  if (out.empty())
    return fail(Errc::not_found, "there is nothing to read {}on {}: put some shards first",
                filter.bucket.empty() ? "" : fmt::format("of {} ", filter.display()),
                drives.size() == 1 ? "the drive" : "the drives");
  return out;
}

Task<Result<std::vector<Subject>>> subjects_in_cluster(Session& session, Place place,
                                                       std::uint64_t bytes) {
  std::vector<Subject> out;
  std::uint64_t taken = 0;
  Listing listing(session, place, Depth::all);
  while (!listing.done() && taken < bytes) {
    CO_TRY(const auto page, co_await listing.next_page());
    for (const ListedObject& object : page) {
      if (taken >= bytes) break;
      if (object.size == 0) continue;
      taken += object.size;
      out.push_back({{place.bucket, object.name}, {"", object.size}, 0});
    }
  }
  if (out.empty())
    co_return fail(Errc::not_found, "{} has no objects to read: put some shards first",
                   place.display());
  co_return out;
}

/// The drives must be those of the cluster that answers: its first object must be this file.
Task<Status> check_same_cluster(Session& session, Subject first) {
  const auto head = co_await head_object(session, first.place);
  if (head && head->stored.size == first.file.size) co_return Status();
  co_return fail(Errc::conflict,
                 "{} of the drives is not what http://{} has under that name: are these drives of "
                 "that cluster?",
                 first.place.display(), session.endpoint().authority());
}

Status measure_drives(const std::vector<Subject>& subjects, std::size_t drives, Measured& out) {
  std::vector<std::vector<BenchFile>> files(drives);
  for (const Subject& subject : subjects) files[subject.drive].push_back(subject.file);
  for (const auto& each : files) {
    TRY(const std::uint64_t warm, make_cold(each));
    out.warm += warm;
  }
  double seconds = 0;
  TRY(out.drives, read_drives(files, seconds));
  // Each drive at its own rate: one that is done first is not slower for it.
  for (const DriveRate& drive : out.drives) out.figures.drives += drive.rate();
  for (const auto& each : files) {
    TRY(const std::uint64_t warm, make_cold(each));
    out.warm += warm;
  }
  return {};
}

Task<Result<ItemDone>> read_through(Session& session, const Subject& subject, Meter& meter) {
  Nowhere nowhere;
  CO_TRY(const Stored stored, co_await download(session, subject.place, nowhere, &meter));
  co_return ItemDone{ItemDone::Outcome::done, stored.size};
}

void measure_tarn(Session& session, const std::vector<Subject>& subjects, unsigned jobs,
                  const GlobalOptions& options, Measured& out) {
  Progress progress("bench", progress_style(options.quiet));
  std::uint64_t bytes = 0;
  for (const Subject& subject : subjects) bytes += subject.file.size;
  progress.expect(subjects.size(), bytes);
  const ProcessorTime before = ProcessorTime::now();
  out.through_tarn = run_batch(
      session, progress, subjects.size(), jobs,
      [&](std::size_t i) { return subjects[i].place.display(); },
      [&](std::size_t i, Meter& meter) { return read_through(session, subjects[i], meter); });
  out.figures.processor_share = busy_share(before, ProcessorTime::now());
  out.figures.network = network_rate();
  progress.finish();
  if (out.through_tarn.seconds > 0)
    out.figures.through_tarn =
        static_cast<double>(out.through_tarn.bytes) / out.through_tarn.seconds;
}

std::string megabytes(double rate) { return fmt::format("{:.1f} MB/s", rate / 1e6); }

std::string explained(const std::string& binds) {
  if (binds == "drive") return "the drives: Tarn reads as fast as they can";
  if (binds == "network") return "the network port of this machine";
  if (binds == "processor") return "the processors of this machine";
  return "none of drives, network port and processors of this machine alone: try more readers (-j)";
}

nlohmann::ordered_json bench_json_of(const BenchArguments& arguments, const Measured& measured,
                                     unsigned jobs) {
  auto drives = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < measured.drives.size(); ++i)
    drives.push_back({{"drive", arguments.drives[i]},
                      {"bytes", measured.drives[i].bytes},
                      {"seconds", measured.drives[i].seconds},
                      {"rate", measured.drives[i].rate()}});
  const BenchFigures& figures = measured.figures;
  nlohmann::ordered_json out{{"drives", drives}};
  out["drives_elsewhere"] = measured.drives_elsewhere;
  out["drives_rate"] =
      measured.drives.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(figures.drives);
  out["tarn_rate"] = figures.through_tarn;
  out["tarn_bytes"] = measured.through_tarn.bytes;
  out["tarn_seconds"] = measured.through_tarn.seconds;
  out["readers"] = jobs;
  out["ratio"] = figures.drives > 0 ? nlohmann::ordered_json(figures.through_tarn / figures.drives)
                                    : nlohmann::ordered_json();
  out["processor_share"] = figures.processor_share;
  out["network_rate"] = figures.network;
  out["warm_files"] = measured.warm;
  out["failed"] = measured.through_tarn.failures.size();
  out["binds"] = what_binds(figures);
  return out;
}

void print_table(const BenchArguments& arguments, const Measured& measured, unsigned jobs) {
  Table table({"WHAT", "RATE", "READ", "READERS"});
  for (std::size_t i = 0; i < measured.drives.size(); ++i)
    table.add({arguments.drives[i],
               measured.drives[i].bytes > 0 ? megabytes(measured.drives[i].rate()) : "-",
               readable_size(measured.drives[i].bytes), "1"});
  const BenchFigures& figures = measured.figures;
  if (measured.drives.size() > 1) table.add({"all drives", megabytes(figures.drives), "", ""});
  table.add({"through Tarn", megabytes(figures.through_tarn),
             readable_size(measured.through_tarn.bytes), std::to_string(jobs)});
  table.print();
  if (figures.drives > 0)
    fmt::print("\nratio {:.2f}; processors {:.0f}% busy; what binds: {}\n",
               figures.through_tarn / figures.drives, figures.processor_share * 100,
               explained(what_binds(figures)));
  else
    fmt::print(
        "\nmeasured through Tarn only, and maybe from the memory of its targets: to compare with "
        "their drives, run it on their machine\nprocessors {:.0f}% busy; what binds: {}\n",
        figures.processor_share * 100, explained(what_binds(figures)));
  if (!measured.drives.empty() && measured.drives_elsewhere > 0)
    fmt::print("{} drives of the cluster are on other machines: only those of this one are read\n",
               measured.drives_elsewhere);
  if (measured.warm > 0)
    fmt::print("{} files stayed in memory all the same: the rates may be too high\n",
               measured.warm);
}

Result<std::vector<Subject>> choose(Session& session, const BenchArguments& arguments) {
  TRY(const std::uint64_t bytes, parse_amount(arguments.bytes));
  Place place;
  if (!arguments.where.empty()) {
    TRY(place, parse_place(arguments.where));
  }
  if (arguments.drives.empty()) {
    if (place.bucket.empty())
      return fail(Errc::invalid_argument,
                  "no drive of the targets of http://{} is on this machine: run it on theirs, or "
                  "name a BUCKET to read through Tarn only",
                  session.endpoint().authority());
    return session.run(subjects_in_cluster(session, place, bytes));
  }
  TRY(auto subjects, subjects_on_drives(arguments.drives, place, bytes));
  TRY_OK(session.run(check_same_cluster(session, subjects.front())));
  return subjects;
}

Exit bench(Session& session, BenchArguments arguments, const GlobalOptions& options) {
  for (std::string& drive : arguments.drives)
    while (drive.size() > 1 && drive.back() == '/') drive.pop_back();
  Measured measured;
  if (arguments.drives.empty() && !arguments.no_drives) {
    auto found = session.run(cluster_drives(session));
    if (!found) return complain("bench", found.error());
    arguments.drives = std::move(found->here);
    measured.drives_elsewhere = found->elsewhere;
  }
  const auto subjects = choose(session, arguments);
  if (!subjects) return complain("bench", subjects.error());
  const auto per_drive = static_cast<unsigned>(2 * arguments.drives.size());
  const unsigned jobs =
      arguments.jobs > 0 ? arguments.jobs : std::clamp(per_drive, kJobsDefault, kJobsMax);
  measured.figures.on_this_machine = !arguments.drives.empty();
  if (!arguments.drives.empty()) {
    const Status alone = measure_drives(*subjects, arguments.drives.size(), measured);
    if (!alone) return complain("bench", alone.error());
  }
  measure_tarn(session, *subjects, jobs, options, measured);
  if (options.json)
    print_json(bench_json_of(arguments, measured, jobs));
  else
    print_table(arguments, measured, jobs);
  return measured.through_tarn.exit();
}

}  // namespace

void add_bench_command(const CommandLine& line) {
  auto* command = line.app.add_subcommand(
      "bench", "Measure drives alone, then the same bytes through Tarn, and say what binds");
  command->footer(
      "What is read is dropped from memory before each of the two (posix_fadvise).\n"
      "Examples:\n"
      "  tarn bench                  (on a machine of targets: their drives there)\n"
      "  tarn bench data/train-      (from elsewhere: through Tarn only)");
  const auto arguments = std::make_shared<BenchArguments>();
  command->add_option("BUCKET[/PREFIX]", arguments->where, "only these objects");
  command
      ->add_option("--drive", arguments->drives,
                   "only this directory that a target has as --drive; once for each of them")
      ->allow_extra_args(false);
  command->add_flag("--no-drives", arguments->no_drives, "measure through Tarn only")
      ->excludes("--drive");
  command->add_option("--bytes", arguments->bytes,
                      "to read of each drive, or in all when there are none (1GiB)");
  command
      ->add_option("-j,--jobs", arguments->jobs,
                   "readers at a time through Tarn (two a drive, at least 8)")
      ->check(CLI::Range(1U, kJobsMax));
  line.on_session(command, "bench", [arguments, &options = line.options](Session& session) {
    return bench(session, *arguments, options);
  });
}

}  // namespace tarn::cli
