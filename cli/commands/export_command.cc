#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/drives/drive_scan.h"
#include "cli/drives/export_files.h"

namespace tarn::cli {
namespace {

struct ExportArguments {
  std::vector<std::string> drives;
  std::string directory;
  std::string bucket;
  bool salvage = false;
};

/// Result of an export, and the worst error.
struct Report {
  std::uint64_t written = 0;
  std::uint64_t already_there = 0;
  std::uint64_t bytes = 0;
  std::uint64_t failed = 0;
  std::uint64_t unfinished = 0;
  std::uint64_t without_record = 0;
  bool damaged = false;

  void problem(const Error& error) {
    complain("export", error);
    ++failed;
    damaged |= error.code == Errc::corrupt;
  }
};

/// Any one good copy will do; when there is none, each gets its line.
void export_object(ExportDirectory& directory, const DriveScan::ObjectKey& key,
                   const std::vector<FoundFile>& copies, Report& report) {
  std::vector<Error> errors;
  if (copies.empty())
    errors.push_back({Errc::corrupt, fmt::format("{}/{}: none of its slices is on these drives",
                                                 key.first, key.second)});
  for (const FoundFile& copy : copies) {
    const auto outcome = directory.write(key.first, key.second, copy);
    if (outcome) {
      const bool written = *outcome == ExportDirectory::Outcome::written;
      ++(written ? report.written : report.already_there);
      report.bytes += written ? copy.size : 0;
      return;
    }
    errors.push_back(outcome.error());
  }
  for (const Error& error : errors) report.problem(error);
}

Exit finish(const Report& report, const ExportArguments& arguments, bool json) {
  if (json)
    print_json({{"written", report.written},
                {"already_there", report.already_there},
                {"bytes", report.bytes},
                {"failed", report.failed},
                {"unfinished", report.unfinished},
                {"without_record", report.without_record}});
  else
    fmt::print(
        "{} objects ({} bytes) written to {}, {} already there, {} failed, {} unfinished "
        "uploads left out\n",
        report.written, report.bytes, printable(arguments.directory), report.already_there,
        report.failed, report.unfinished);
  if (report.without_record > 0 && !arguments.salvage && !json)
    fmt::print(
        "{} more names have slices enough and no record on these drives: deleted, or their record "
        "was lost. --salvage writes them, too\n",
        report.without_record);
  if (report.damaged) return Exit::integrity;
  return report.failed > 0 ? Exit::partial : Exit::ok;
}

Exit export_drives(const ExportArguments& arguments, bool json) {
  Report report;
  DriveScan scan([&](const Error& error) { report.problem(error); });
  for (const std::string& drive : arguments.drives)
    if (const Status added = scan.add(drive); !added) return complain("export", added.error());
  auto directory = ExportDirectory::open(arguments.directory);
  if (!directory) return complain("export", directory.error());
  auto objects = scan.objects();
  const auto without_record = scan.without_record();
  if (arguments.salvage) objects.insert(without_record.begin(), without_record.end());
  const auto wanted = [&](const DriveScan::ObjectKey& key) {
    return arguments.bucket.empty() || key.first == arguments.bucket;
  };
  for (const auto& [key, copies] : objects)
    if (wanted(key)) export_object(*directory, key, copies, report);
  for (const auto& [key, copies] : without_record) report.without_record += wanted(key) ? 1 : 0;
  report.unfinished = scan.unfinished();
  if (const Status synced = directory->sync(); !synced) report.problem(synced.error());
  return finish(report, arguments, json);
}

}  // namespace

void add_export_command(const CommandLine& line) {
  auto* command = line.app.add_subcommand(
      "export", "Read drives without a cluster: every object becomes a file DIR/BUCKET/OBJECT");
  command->footer("Example:\n  tarn export /mnt/d1 /mnt/d2 --to /restored --bucket data");
  const auto arguments = std::make_shared<ExportArguments>();
  command->add_option("DRIVE", arguments->drives, "directories that targets had as --drive")
      ->required();
  command->add_option("--to", arguments->directory, "where to write")->required();
  command->add_option("--bucket", arguments->bucket, "only this bucket");
  command->add_flag("--salvage", arguments->salvage,
                    "also what has slices enough, but whose record is on none of these drives: it "
                    "may have been deleted");
  command->callback([arguments, &options = line.options, &chosen = line.chosen] {
    chosen = [arguments, &options] { return export_drives(*arguments, options.json); };
  });
}

}  // namespace tarn::cli
