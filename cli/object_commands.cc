#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/place.h"
#include "cli/printing.h"
#include "cli/transfer.h"
#include "common/api/request_path.h"

namespace tarn::cli {
namespace {

std::string base_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

/// "data" and "data/day1/" take the file's own name behind them.
Result<Place> place_for(const std::string& file, const std::string& where) {
  TRY(Place place, parse_place(where));
  if (!place.object.empty() && !place.object.ends_with('/')) return parse_object(where);
  if (file == "-")
    return fail(Errc::invalid_argument,
                "'{}' names no object, and the standard input has no name: write BUCKET/OBJECT",
                where);
  return parse_object(place.bucket + "/" + place.object + base_name(file));
}

Exit put(Session& session, const std::string& file, const std::string& where, Overwrite overwrite,
         bool json) {
  const auto place = place_for(file, where);
  if (!place) return complain("put", place.error());
  auto source = Source::open(file);
  if (!source) return complain("put", source.error());
  const auto stored = session.run(upload(session, *place, *source, overwrite));
  if (!stored) return complain("put", stored.error());
  if (json)
    print_json({{"bucket", place->bucket},
                {"object", place->object},
                {"checksum", stored->checksum},
                {"etag", stored->etag},
                {"version", stored->version}});
  return Exit::ok;
}

Exit get(Session& session, const char* command, const std::string& where, std::string file) {
  const auto place = parse_object(where);
  if (!place) return complain(command, place.error());
  std::error_code ignored;
  if (file.empty()) file = base_name(place->object);
  if (file != "-" && std::filesystem::is_directory(file, ignored))
    file = std::filesystem::path(file) / base_name(place->object);
  auto sink = Sink::open(file);
  if (!sink) return complain(command, sink.error());
  const auto stored = session.run(download(session, *place, *sink));
  return stored ? Exit::ok : complain(command, stored.error());
}

Task<Status> remove_one(Session& session, Place place) {
  Patience patience = session.patience();
  while (true) {
    http::ClientRequest request{
        http::Method::del, api::object_path(place.bucket, place.object), {}, {}};
    const auto opened = co_await session.open(std::move(request), std::nullopt, patience);
    if (opened) co_return Status();
    const bool again = co_await patience.again(opened.error());
    if (!again) co_return fail(opened.error());
  }
}

Exit remove(Session& session, const std::vector<std::string>& names, bool ignore_missing) {
  std::vector<Place> places;
  for (const auto& name : names) {
    auto place = parse_object(name);
    if (!place) return complain("rm", place.error());
    places.push_back(std::move(*place));
  }
  Exit last = Exit::ok;
  std::size_t failed = 0;
  for (const Place& place : places) {
    const Status removed = session.run(remove_one(session, place));
    if (removed || (ignore_missing && removed.error().code == Errc::object_not_found)) continue;
    last = complain("rm", removed.error());
    ++failed;
  }
  return failed > 0 && failed < places.size() ? Exit::partial : last;
}

void add_put(const CommandLine& line) {
  struct Arguments {
    std::string file;
    std::string where;
    bool if_absent = false;
  };
  auto* command =
      line.app.add_subcommand("put", "Send a file, or the standard input, to an object");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("FILE", arguments->file, "file, or - for the standard input")->required();
  command->add_option("BUCKET/OBJECT", arguments->where, "BUCKET/ keeps the file's name")
      ->required();
  command->add_flag("--if-absent", arguments->if_absent, "fail (6) when the object exists already");
  line.on_session(command, "put", [arguments, &options = line.options](Session& session) {
    const auto overwrite = arguments->if_absent ? Overwrite::only_if_absent : Overwrite::allowed;
    return put(session, arguments->file, arguments->where, overwrite, options.json);
  });
}

void add_get(const CommandLine& line) {
  struct Arguments {
    std::string where;
    std::string file;
  };
  auto* command = line.app.add_subcommand(
      "get", "Read an object into a file, which appears when it is complete and verified");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("BUCKET/OBJECT", arguments->where)->required();
  command->add_option(
      "FILE", arguments->file,
      "file or directory, or - for the standard output; else the object's own name");
  line.on_session(command, "get", [arguments](Session& session) {
    return get(session, "get", arguments->where, arguments->file);
  });
}

void add_cat(const CommandLine& line) {
  auto* command = line.app.add_subcommand("cat", "Write an object to the standard output");
  const auto where = std::make_shared<std::string>();
  command->add_option("BUCKET/OBJECT", *where)->required();
  line.on_session(command, "cat",
                  [where](Session& session) { return get(session, "cat", *where, "-"); });
}

void add_rm(const CommandLine& line) {
  struct Arguments {
    std::vector<std::string> names;
    bool force = false;
  };
  auto* command = line.app.add_subcommand("rm", "Delete objects");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("BUCKET/OBJECT", arguments->names)->required();
  command->add_flag("-f,--force", arguments->force, "an object that does not exist is no error");
  line.on_session(command, "rm", [arguments](Session& session) {
    return remove(session, arguments->names, arguments->force);
  });
}

}  // namespace

void add_object_commands(const CommandLine& line) {
  add_put(line);
  add_get(line);
  add_cat(line);
  add_rm(line);
}

}  // namespace tarn::cli
