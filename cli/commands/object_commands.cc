#include <nlohmann/json.hpp>

#include "cli/base/confirm.h"
#include "cli/base/names.h"
#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/tools/job_wait.h"
#include "cli/tools/object_selection.h"
#include "cli/transfer/batch.h"
#include "cli/transfer/transfer.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

// --- rm ---

Task<Result<ItemDone>> remove_one(Session& session, const Place& place, bool ignore_missing) {
  const Status removed = co_await remove_object(session, place);
  if (!removed && ignore_missing && removed.error().code == Errc::object_not_found)
    co_return ItemDone{ItemDone::Outcome::skipped, 0};
  if (!removed) co_return fail(removed.error());
  co_return ItemDone{};
}

struct RemoveArguments {
  std::vector<std::string> words;
  bool force = false;
  unsigned jobs = kJobsDefault;
  bool yes = false;
  ObjectSelection many;
};

/// Begins a job on many objects of a bucket and reports it.
Exit begin_many(Session& session, const char* command, http::Method method, const Place& bucket,
                const nlohmann::ordered_json& action, const JobWords& words,
                const GlobalOptions& options) {
  const auto id = session.run(session.call(method, bucket.bucket_target(), action.dump()));
  if (!id) return complain(command, id.error());
  return tell_of_job(session, command, id->body, words, options);
}

Exit remove_many(Session& session, const RemoveArguments& arguments, const GlobalOptions& options) {
  if (arguments.words.size() != 1)
    return complain("rm", {Errc::invalid_argument, "write: tarn rm BUCKET --prefix old/"});
  const auto bucket = parse_bucket(arguments.words.front());
  if (!bucket) return complain("rm", bucket.error());
  const auto value = arguments.many.message();
  if (!value) return complain("rm", value.error());
  // Objects chosen by a rule, not by their names.
  const bool is_open = arguments.many.all || !arguments.many.prefix.empty();
  const std::string display = arguments.many.display(bucket->bucket_display());
  const Status confirmed = confirm(fmt::format("delete {}", printable(display)),
                                   arguments.yes || arguments.many.dry_run || !is_open);
  if (!confirmed) return complain("rm", confirmed.error());
  const JobWords words{display, arguments.many.dry_run ? "would delete" : "deleted",
                       arguments.many.no_wait};
  return begin_many(session, "rm", http::Method::del, *bucket,
                    {{"action", "delete-listrange"}, {"value", *value}}, words, options);
}

Exit remove(Session& session, const RemoveArguments& arguments, const GlobalOptions& options) {
  const auto places = session.run(resolve_objects(session, arguments.words, options.literal));
  if (!places && arguments.force && places.error().code == Errc::not_found) {
    if (options.json) print_json(BatchResult().json());
    return Exit::ok;
  }
  if (!places) return complain("rm", places.error());
  Progress progress("rm", progress_style(options.quiet));
  progress.expect(places->size(), 0);
  const BatchResult result = run_batch(
      session, progress, places->size(), arguments.jobs,
      [&](std::size_t i) { return (*places)[i].display(); },
      [&](std::size_t i, Meter&) { return remove_one(session, (*places)[i], arguments.force); });
  progress.finish();
  if (options.json) print_json(result.json());
  return result.exit();
}

void add_rm(const CommandLine& line) {
  auto* command = line.app.add_subcommand("rm", "Delete objects");
  command->footer(
      "Examples:\n"
      "  tarn rm 'data/old-{000000..000099}.tar'\n"
      "  tarn rm data --prefix old/ --dry-run");
  const auto arguments = std::make_shared<RemoveArguments>();
  command->add_option("BUCKET/OBJECT", arguments->words)->required();
  command->add_flag("-f,--force", arguments->force, "an object that does not exist is no error");
  command->add_flag("-y,--yes", arguments->yes, "do not ask before --prefix and --all");
  add_jobs_option(command, arguments->jobs);
  arguments->many.add_to(command);
  line.on_session(command, "rm", [arguments, &options = line.options](Session& session) {
    if (arguments->many.given()) return remove_many(session, *arguments, options);
    return remove(session, *arguments, options);
  });
}

// --- stat ---

bool is_framing(std::string_view name) {
  for (const char* other : {"Content-Length", "Connection", "Date", "Server", "Keep-Alive"})
    if (iequals(name, other)) return true;
  return false;
}

nlohmann::ordered_json object_json_of(const Place& place, const ObjectHead& head) {
  auto fields = nlohmann::ordered_json::object();
  for (const http::Field& field : head.fields)
    if (!is_framing(field.name)) fields[field.name] = field.value;
  return {{"bucket", place.bucket},
          {"object", place.object},
          {"size", head.stored.size},
          {"etag", head.stored.etag},
          {"checksum", head.stored.checksum},
          {"version", head.stored.version},
          {"modified", std::string(http::find_field(head.fields, "Last-Modified"))},
          {"headers", fields}};
}

void print_one(const nlohmann::ordered_json& told) {
  Table table({"PROPERTY", "VALUE"});
  for (const char* key : {"bucket", "object", "size", "checksum", "version", "modified", "etag"})
    table.add(
        {key, printable(told[key].is_string() ? told[key].get<std::string>() : told[key].dump())});
  for (const auto& [name, value] : told["headers"].items())
    table.add({name, value.get<std::string>()});
  table.print();
}

void print_many(const std::vector<nlohmann::ordered_json>& all) {
  Table table({"SIZE", "MODIFIED", "CHECKSUM", "VERSION", "NAME"});
  for (const auto& told : all)
    table.add(
        {told["size"].dump(), told["modified"].get<std::string>(),
         told["checksum"].get<std::string>(), told["version"].get<std::string>(),
         printable(told["bucket"].get<std::string>() + "/" + told["object"].get<std::string>())});
  table.print();
}

Task<Result<ItemDone>> stat_one(Session& session, const Place& place,
                                nlohmann::ordered_json& told) {
  CO_TRY(const ObjectHead head, co_await head_object(session, place));
  told = object_json_of(place, head);
  co_return ItemDone{};
}

Exit stat(Session& session, const std::vector<std::string>& words, const GlobalOptions& options) {
  const auto places = session.run(resolve_objects(session, words, options.literal));
  if (!places) return complain("stat", places.error());
  std::vector<nlohmann::ordered_json> told(places->size());
  Progress progress("stat", progress_style(options.quiet));
  progress.expect(places->size(), 0);
  const BatchResult result = run_batch(
      session, progress, places->size(), kJobsDefault,
      [&](std::size_t i) { return (*places)[i].display(); },
      [&](std::size_t i, Meter&) { return stat_one(session, (*places)[i], told[i]); });
  progress.finish();
  std::erase_if(told, [](const auto& each) { return each.is_null(); });
  if (options.json)
    print_json(told);
  else if (places->size() == 1 && !told.empty())
    print_one(told.front());
  else if (!told.empty())
    print_many(told);
  return result.exit();
}

void add_stat(const CommandLine& line) {
  auto* command = line.app.add_subcommand("stat", "Show what the cluster knows of objects");
  command->footer("Example:\n  tarn stat data/shard-000000.tar");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("BUCKET/OBJECT", *words)->required();
  line.on_session(command, "stat", [words, &options = line.options](Session& session) {
    return stat(session, *words, options);
  });
}

// --- cp ---

struct CopyArguments {
  std::vector<std::string> words;  ///< objects, and their destination
  bool if_absent = false;
  unsigned jobs = kJobsDefault;
  ObjectSelection many;
  std::string prepend;  ///< goes before each new name of many
};

Exit copy_many(Session& session, const CopyArguments& arguments, const GlobalOptions& options) {
  if (arguments.words.size() != 2 || arguments.if_absent)
    return complain("cp", {Errc::invalid_argument,
                           "write: tarn cp BUCKET BUCKET --prefix train/; --if-absent is for "
                           "objects that are named one by one"});
  const auto from = parse_bucket(arguments.words[0]);
  if (!from) return complain("cp", from.error());
  const auto to = parse_bucket(arguments.words[1]);
  if (!to) return complain("cp", to.error());
  auto value = arguments.many.message();
  if (!value) return complain("cp", value.error());
  (*value)["tobck"] = {{"name", to->bucket}, {"provider", to->provider}};
  (*value)["prepend"] = arguments.prepend;
  const JobWords words{
      arguments.many.display(from->bucket_display()) + " to " + to->bucket_display(),
      arguments.many.dry_run ? "would copy" : "copied", arguments.many.no_wait};
  return begin_many(session, "cp", http::Method::post, *from,
                    {{"action", "copy-listrange"}, {"value", *value}}, words, options);
}

struct ObjectCopy {
  Place from;
  Place to;
};

Result<std::vector<ObjectCopy>> plan_copies(Session& session, const CopyArguments& arguments,
                                            bool literal) {
  const auto& words = arguments.words;
  if (words.size() < 2)
    return fail(Errc::invalid_argument, "where to? Write: tarn cp BUCKET/OBJECT... BUCKET/OBJECT");
  TRY(auto from, session.run(resolve_objects(session, {words.begin(), words.end() - 1}, literal)));
  std::vector<std::string> names;
  for (const Place& place : from) names.push_back(base_name(place.object));
  TRY(auto to, destinations(names, words.back(), literal));
  std::vector<ObjectCopy> copies;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].display() == to[i].display())
      return fail(Errc::invalid_argument, "'{}' would be copied to itself", from[i].display());
    copies.push_back({std::move(from[i]), std::move(to[i])});
  }
  return copies;
}

Task<Result<ItemDone>> copy_one(Session& session, const ObjectCopy& copy, Overwrite overwrite,
                                Meter& meter) {
  const auto stored = co_await copy_object(session, copy.from, copy.to, overwrite, &meter);
  if (!stored)
    co_return fail(stored.error().code, "{} to {}: {}", copy.from.display(), copy.to.display(),
                   stored.error().message);
  co_return ItemDone{ItemDone::Outcome::done, stored->size};
}

Exit object_copy(Session& session, const CopyArguments& arguments, const GlobalOptions& options) {
  const auto copies = plan_copies(session, arguments, options.literal);
  if (!copies) return complain("cp", copies.error());
  const auto overwrite = arguments.if_absent ? Overwrite::only_if_absent : Overwrite::allowed;
  Progress progress("cp", progress_style(options.quiet));
  progress.expect(copies->size(), 0);
  const BatchResult result = run_batch(
      session, progress, copies->size(), arguments.jobs,
      [&](std::size_t i) { return (*copies)[i].to.display(); },
      [&](std::size_t i, Meter& meter) {
        return copy_one(session, (*copies)[i], overwrite, meter);
      });
  progress.finish();
  if (options.json)
    print_json(result.json());
  else if (!options.quiet && copies->size() > 1)
    fmt::print("{}\n", result.summary("copied"));
  return result.exit();
}

void add_cp(const CommandLine& line) {
  auto* command =
      line.app.add_subcommand("cp", "Copy objects within the cluster; no byte of them comes here");
  command->footer(
      "Examples:\n"
      "  tarn cp data/shard-000000.tar backup/\n"
      "  tarn cp 'data/shard-{000000..000099}.tar' data/train-%06d.tar\n"
      "  tarn cp data backup --prefix 2026/ --prepend old/");
  const auto arguments = std::make_shared<CopyArguments>();
  command
      ->add_option("BUCKET/OBJECT... BUCKET/OBJECT", arguments->words,
                   "objects, and where they go: BUCKET/ keeps their names, %06d numbers them")
      ->required();
  command->add_flag("--if-absent", arguments->if_absent, "fail (6) when the object exists already");
  add_jobs_option(command, arguments->jobs);
  arguments->many.add_to(command);
  command->add_option("--prepend", arguments->prepend, "goes before each new name of such a job");
  line.on_session(command, "cp", [arguments, &options = line.options](Session& session) {
    if (arguments->many.given()) return copy_many(session, *arguments, options);
    return object_copy(session, *arguments, options);
  });
}

}  // namespace

void add_object_commands(const CommandLine& line) {
  add_put_command(line);
  add_get_commands(line);
  add_rm(line);
  add_stat(line);
  add_cp(line);
}

}  // namespace tarn::cli
