#include <filesystem>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "cli/base/names.h"
#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/transfer/batch.h"
#include "cli/transfer/transfer.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

struct GetArguments {
  std::vector<std::string> words;  ///< objects, and their destination
  std::string directory;           ///< --to
  unsigned jobs = kJobsDefault;
};

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// Names of partial files that earlier runs left in the directory of `file`.
std::vector<std::string> partial_names_beside(const std::string& file) {
  if (file == "-") return {};
  const auto directory = std::filesystem::path(file).parent_path();
  return partial_names_in(directory.empty() ? "." : directory);
}

Exit get_one(Session& session, const char* command, const Place& place, std::string file,
             const GlobalOptions& options) {
  if (file.empty()) file = base_name(place.object);
  if (file != "-" && is_directory(file))
    file = std::filesystem::path(file) / base_name(place.object);
  auto sink = Sink::open(file, partial_names_beside(file));
  if (!sink) return complain(command, sink.error());
  // Bytes for the standard output may go to the same terminal.
  Progress progress(command, progress_style(options.quiet || file == "-"));
  progress.expect(1, 0);
  Result<Stored> stored;
  {
    Progress::Line line(progress, place.display());
    stored = session.run(download(session, place, *sink, &line.meter()));
  }
  progress.finish();
  if (!stored) return complain(command, stored.error());
  if (options.json && file != "-")
    print_json({{"bucket", place.bucket},
                {"object", place.object},
                {"file", file},
                {"size", stored->size},
                {"checksum", stored->checksum},
                {"etag", stored->etag}});
  return Exit::ok;
}

/// True if `file` has these very bytes.
Result<bool> is_same(const std::string& file, const Stored& stored) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<std::uint64_t>(info.st_size) != stored.size)
    return false;
  TRY(Source source, Source::open(file));
  TRY(const std::uint64_t hash, hash_of(source));
  return hex64(hash) == stored.checksum;
}

/// Downloads an object, but not again what an earlier run brought.
Task<Result<ItemDone>> get_if_missing(Session& session, const Place& place, std::string file,
                                      const std::vector<std::string>& partials, Meter& meter) {
  struct stat info{};
  if (::stat(file.c_str(), &info) == 0) {
    CO_TRY(const ObjectHead head, co_await head_object(session, place));
    CO_TRY(const bool same, is_same(file, head.stored));
    meter.begin(head.stored.size, same ? head.stored.size : 0);
    if (same) co_return ItemDone{ItemDone::Outcome::skipped, 0};
  }
  CO_TRY(Sink sink, Sink::open(file, partials));
  CO_TRY(const Stored stored, co_await download(session, place, sink, &meter));
  co_return ItemDone{ItemDone::Outcome::done, stored.size};
}

Exit get_many(Session& session, const std::vector<Place>& places, const std::string& directory,
              const GetArguments& arguments, const GlobalOptions& options) {
  std::vector<std::string> names;
  names.reserve(places.size());
  for (const Place& place : places) names.push_back(base_name(place.object));
  if (const Status distinct = check_distinct(names, directory); !distinct)
    return complain("get", distinct.error());
  const auto partials = partial_names_in(directory);
  Progress progress("get", progress_style(options.quiet));
  progress.expect(places.size(), 0);
  const BatchResult result = run_batch(
      session, progress, places.size(), arguments.jobs,
      [&](std::size_t i) { return places[i].display(); },
      [&](std::size_t i, Meter& meter) {
        return get_if_missing(session, places[i], std::filesystem::path(directory) / names[i],
                              partials, meter);
      });
  progress.finish();
  if (options.json)
    print_json(result.json());
  else if (!options.quiet)
    fmt::print("{}\n", result.summary("received"));
  return result.exit();
}

/// The directory for many objects: made when it is not there.
Status make_directory(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (!is_directory(path))
    return fail(Errc::invalid_argument, "'{}' is no directory: several objects go into a directory",
                path);
  return {};
}

Exit get_get(Session& session, const GetArguments& arguments, const GlobalOptions& options) {
  auto words = arguments.words;
  std::string where = arguments.directory;
  if (where.empty() && words.size() > 1) {
    where = words.back();
    words.pop_back();
  }
  const auto places = session.run(resolve_objects(session, words, options.literal));
  if (!places) return complain("get", places.error());
  if (places->size() == 1 && arguments.directory.empty())
    return get_one(session, "get", places->front(), where, options);
  if (where == "-")
    return complain("get", {Errc::invalid_argument,
                            "several objects to the standard output: that is tarn cat"});
  if (where.empty()) where = ".";
  if (const Status made = make_directory(where); !made) return complain("get", made.error());
  return get_many(session, *places, where, arguments, options);
}

Exit cat(Session& session, const std::vector<std::string>& words, const GlobalOptions& options) {
  const auto places = session.run(resolve_objects(session, words, options.literal));
  if (!places) return complain("cat", places.error());
  for (const Place& place : *places)
    if (const Exit code = get_one(session, "cat", place, "-", options); code != Exit::ok)
      return code;
  return Exit::ok;
}

}  // namespace

void add_get_commands(const CommandLine& line) {
  auto* get_command = line.app.add_subcommand(
      "get", "Read objects into files, which appear when they are complete and verified");
  get_command->footer(
      "Examples:\n"
      "  tarn get data/shard-000000.tar\n"
      "  tarn get 'data/shard-{000000..000099}.tar' /scratch/shards   (again: only what is "
      "missing)\n"
      "What came of a file before the end of the command is beside it, as .NAME.*.tarn-part, and "
      "is "
      "not\nfetched again.");
  const auto arguments = std::make_shared<GetArguments>();
  get_command
      ->add_option("BUCKET/OBJECT... [FILE]", arguments->words,
                   "objects; after them a file or directory, or - for the standard output; else "
                   "their own names")
      ->required();
  get_command->add_option("--to", arguments->directory,
                          "directory for all that is named; files that are the same are skipped");
  add_jobs_option(get_command, arguments->jobs);
  line.on_session(get_command, "get", [arguments, &options = line.options](Session& session) {
    return get_get(session, *arguments, options);
  });

  auto* cat_command =
      line.app.add_subcommand("cat", "Write objects to the standard output, one after the other");
  cat_command->footer("Example:\n  tarn cat data/shard-000000.tar | tar -tf -");
  const auto words = std::make_shared<std::vector<std::string>>();
  cat_command->add_option("BUCKET/OBJECT", *words)->required();
  line.on_session(cat_command, "cat", [words, &options = line.options](Session& session) {
    return cat(session, *words, options);
  });
}

}  // namespace tarn::cli
