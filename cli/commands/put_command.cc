#include <sys/stat.h>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "cli/base/listing.h"
#include "cli/base/names.h"
#include "cli/base/printing.h"
#include "cli/base/templates.h"
#include "cli/commands/commands.h"
#include "cli/transfer/batch.h"
#include "cli/transfer/transfer.h"
#include "cli/transfer/tree_walk.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

struct PutArguments {
  std::vector<std::string> words;  ///< files, and their destination
  bool if_absent = false;
  bool recursive = false;
  bool follow = false;
  unsigned jobs = kJobsDefault;
};

/// A file and its destination.
struct Item {
  std::string path;
  std::string name;  ///< in messages
  Place place;
  std::uint64_t size = 0;
};

using Present = std::unordered_map<std::string, ListedObject>;

bool is_file(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0;
}

std::uint64_t put_size_of(const std::string& path) {
  struct stat info{};
  const bool regular = ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  return regular ? static_cast<std::uint64_t>(info.st_size) : 0;
}

/// A word that names a file is that file; templates stand for names of several files.
Result<std::vector<std::string>> files_of(const std::vector<std::string>& words, bool literal) {
  std::vector<std::string> files;
  for (const std::string& word : words) {
    if (literal || word == "-" || is_file(word)) {
      files.push_back(word);
      continue;
    }
    TRY(auto expanded, expand_template(word));
    std::move(expanded.begin(), expanded.end(), std::back_inserter(files));
  }
  return files;
}

Result<std::vector<Item>> plan_files(const PutArguments& arguments, bool literal) {
  const auto& words = arguments.words;
  TRY(const auto files, files_of({words.begin(), words.end() - 1}, literal));
  const std::string& where = words.back();
  std::vector<std::string> names;
  for (const std::string& file : files) {
    if (file == "-" && files.size() > 1)
      return fail(Errc::invalid_argument, "the standard input can only be sent alone");
    names.push_back(file == "-" ? "" : base_name(file));
  }
  if (files.front() == "-") {
    TRY(const Place place, parse_place(where));
    if (place.object.empty() || place.object.ends_with('/'))
      return fail(Errc::invalid_argument,
                  "'{}' names no object, and the standard input has no name: write BUCKET/OBJECT",
                  where);
  }
  TRY(const auto places, destinations(names, where, literal));
  std::vector<Item> items;
  items.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i)
    items.push_back({files[i], files[i], places[i], put_size_of(files[i])});
  return items;
}

Exit put_one(Session& session, const Item& item, const PutArguments& arguments,
             const GlobalOptions& options) {
  auto source = Source::open(item.path);
  if (!source) return complain("put", source.error());
  Progress progress("put", progress_style(options.quiet));
  progress.expect(1, 0);
  Result<Stored> stored;
  {
    Progress::Line line(progress, item.place.display());
    UploadOptions how{arguments.if_absent ? Overwrite::only_if_absent : Overwrite::allowed, "",
                      &line.meter()};
    stored = session.run(upload(session, item.place, *source, std::move(how)));
  }
  progress.finish();
  if (!stored) return complain("put", stored.error());
  if (options.json)
    print_json({{"bucket", item.place.bucket},
                {"object", item.place.object},
                {"checksum", stored->checksum},
                {"etag", stored->etag},
                {"version", stored->version}});
  return Exit::ok;
}

/// Sends a file whose checksum goes before it, unless the same bytes are there already.
Task<Result<ItemDone>> put_verified(Session& session, const Item& item, const Present& present,
                                    Overwrite overwrite, Meter& meter) {
  CO_TRY(Source source, Source::open(item.path));
  const auto length = source.length();
  UploadOptions how{overwrite, "", &meter};
  if (length) {
    CO_TRY(const std::uint64_t hash, hash_of(source));
    how.checksum = hex64(hash);
    const auto there = present.find(item.place.object);
    if (there != present.end() && there->second.size == *length &&
        to_lower(there->second.checksum) == how.checksum) {
      meter.begin(*length, *length);
      co_return ItemDone{ItemDone::Outcome::skipped, 0};
    }
  }
  const auto stored = co_await upload(session, item.place, source, std::move(how));
  if (!stored)
    co_return fail(stored.error().code, "'{}' to {}: {}", item.path, item.place.display(),
                   stored.error().message);
  co_return ItemDone{ItemDone::Outcome::done, meter.done()};
}

BatchResult send_all(Session& session, Progress& progress, const std::vector<Item>& items,
                     const Present& present, const PutArguments& arguments) {
  std::uint64_t bytes = 0;
  for (const Item& item : items) bytes += item.size;
  progress.expect(items.size(), bytes);
  const auto overwrite = arguments.if_absent ? Overwrite::only_if_absent : Overwrite::allowed;
  return run_batch(
      session, progress, items.size(), arguments.jobs, [&](std::size_t i) { return items[i].name; },
      [&](std::size_t i, Meter& meter) {
        return put_verified(session, items[i], present, overwrite, meter);
      });
}

Exit put_files(Session& session, const PutArguments& arguments, const GlobalOptions& options) {
  if (arguments.words.size() < 2)
    return complain("put", {Errc::invalid_argument,
                            "where to? Write: tarn put FILE... BUCKET/ (or -r DIRECTORY)"});
  const auto items = plan_files(arguments, options.literal);
  if (!items) return complain("put", items.error());
  if (items->size() == 1) return put_one(session, items->front(), arguments, options);
  Progress progress("put", progress_style(options.quiet));
  const BatchResult result = send_all(session, progress, *items, {}, arguments);
  progress.finish();
  if (options.json)
    print_json(result.json());
  else if (!options.quiet)
    fmt::print("{}\n", result.summary("sent"));
  return result.exit();
}

/// Lists the objects that the cluster has below `prefix`, by name.
Task<Result<Present>> list_present(Session& session, Place prefix) {
  Present present;
  const std::string bucket = prefix.bucket;
  Listing listing(session, std::move(prefix), Depth::all);
  while (!listing.done()) {
    auto page = co_await listing.next_page();
    if (!page && page.error().code == Errc::bucket_not_found)
      co_return fail(Errc::bucket_not_found,
                     "bucket '{}' does not exist; make it with: tarn bucket create {}", bucket,
                     bucket);
    if (!page) co_return fail(page.error());
    for (ListedObject& object : *page) {
      std::string name = object.name;
      present.emplace(std::move(name), std::move(object));
    }
  }
  co_return present;
}

/// "DIR" alone goes into the bucket of the directory's name; "BUCKET/PREFIX" means
/// "BUCKET/PREFIX/".
Result<Place> tree_place(const PutArguments& arguments) {
  std::string directory = arguments.words.front();
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  TRY(Place place,
      parse_place(arguments.words.size() > 1 ? arguments.words[1] : base_name(directory)));
  if (!place.object.empty() && !place.object.ends_with('/')) place.object += '/';
  return place;
}

/// The files whose names can be objects; a failure for each other file.
std::vector<Item> plan_tree(const Tree& tree, const Place& prefix,
                            std::vector<std::pair<std::string, Error>>& refused) {
  std::vector<Item> items;
  for (const TreeFile& file : tree.files) {
    auto place = parse_object(prefix.bucket_display() + "/" + prefix.object + file.name);
    if (place)
      items.push_back({file.path, file.name, std::move(*place), file.size});
    else
      refused.emplace_back(
          file.path, Error{place.error().code, fmt::format("'{}' cannot be an object's name: {}",
                                                           file.path, place.error().message)});
  }
  return items;
}

Exit put_tree(Session& session, const PutArguments& arguments, const GlobalOptions& options) {
  if (arguments.words.size() > 2)
    return complain("put",
                    {Errc::invalid_argument, "-r takes one directory: tarn put -r DIR BUCKET/"});
  const auto prefix = tree_place(arguments);
  if (!prefix) return complain("put", prefix.error());
  const auto tree =
      walk_tree(arguments.words.front(),
                arguments.follow ? LinksToDirectories::followed : LinksToDirectories::left_out);
  if (!tree) return complain("put", tree.error());
  const auto present = session.run(list_present(session, *prefix));
  if (!present) return complain("put", present.error());
  std::vector<std::pair<std::string, Error>> refused;
  const auto items = plan_tree(*tree, *prefix, refused);
  for (const Error& error : tree->problems) refused.emplace_back("", error);

  Progress progress("put", progress_style(options.quiet));
  for (const std::string& text : tree->left_out) progress.say(text);
  for (const auto& [path, error] : refused) progress.complain(error);
  BatchResult result = send_all(session, progress, items, *present, arguments);
  progress.finish();
  for (const auto& [path, error] : refused) {
    result.failures.push_back({path, error.message});
    result.last_failure = exit_for(error.code);
  }
  if (options.json) {
    auto told = result.json();
    told["left_out"] = tree->left_out.size();
    print_json(told);
  } else if (!options.quiet) {
    fmt::print("{}, {} left out\n", result.summary("sent"), tree->left_out.size());
  }
  return result.exit();
}

}  // namespace

void add_put_command(const CommandLine& line) {
  auto* command = line.app.add_subcommand("put", "Send files, a directory or the standard input");
  command->footer(
      "Examples:\n"
      "  tarn put shard-000000.tar data/\n"
      "  tarn put *.tar data/train-%06d.tar\n"
      "  tarn put -r /mnt/nfs/imagenet data/imagenet/   (again: sends only what is missing)");
  const auto arguments = std::make_shared<PutArguments>();
  command
      ->add_option(
          "FILE... BUCKET/OBJECT", arguments->words,
          "files, or - for the standard input; BUCKET/ keeps their names, %06d numbers them")
      ->required();
  command->add_flag("-r,--recursive", arguments->recursive,
                    "all files below a directory; those that are there with the same size and "
                    "checksum are skipped");
  command->add_flag("--follow", arguments->follow, "with -r: enter links to directories, too");
  command->add_flag("--if-absent", arguments->if_absent, "fail (6) when the object exists already");
  add_jobs_option(command, arguments->jobs);
  line.on_session(command, "put", [arguments, &options = line.options](Session& session) {
    return arguments->recursive ? put_tree(session, *arguments, options)
                                : put_files(session, *arguments, options);
  });
}

}  // namespace tarn::cli
