#include <nlohmann/json.hpp>

#include "cli/base/listing.h"
#include "cli/base/place.h"
#include "cli/base/printing.h"
#include "cli/commands/commands.h"

namespace tarn::cli {
namespace {

struct ListArguments {
  std::string where;
  bool readable = false;
  bool names_only = false;
  bool directories = false;
  ListedFrom from = ListedFrom::everywhere;
  bool all = false;
};

void print_line(const ListedObject& object, const ListArguments& arguments) {
  if (arguments.names_only)
    fmt::print("{}\n", printable(object.name));
  else if (object.is_directory())
    fmt::print("{:>12}  {}\n", "-", printable(object.name));
  else
    fmt::print("{:>12}  {}\n",
               arguments.readable ? readable_size(object.size) : std::to_string(object.size),
               printable(object.name));
}

/// One element of a JSON array that is printed as it comes: a list may be longer than memory.
void print_element(const ListedObject& object, bool first) {
  nlohmann::ordered_json out{{"name", object.name}};
  if (!object.is_directory()) {
    out["size"] = object.size;
    out["checksum"] = object.checksum;
    out["version"] = object.version;
  }
  using Handler = nlohmann::ordered_json::error_handler_t;
  fmt::print("{}{}", first ? "\n  " : ",\n  ", out.dump(-1, ' ', false, Handler::replace));
}

Exit list_objects(Session& session, const Place& place, const ListArguments& arguments, bool json) {
  const auto depth = arguments.directories ? Depth::one_level : Depth::all;
  Listing listing(session, place, depth, arguments.from);
  bool first = true;
  for (bool begun = false; !listing.done(); begun = true) {
    const auto page = session.run(listing.next_page());
    if (!page) return complain("ls", page.error());
    if (json && !begun) fmt::print("[");
    for (const ListedObject& object : *page) {
      if (json)
        print_element(object, first);
      else
        print_line(object, arguments);
      first = false;
    }
  }
  if (json) fmt::print("{}]\n", first ? "" : "\n");
  return Exit::ok;
}

Exit list_list(Session& session, const ListArguments& arguments, bool json) {
  const auto which = arguments.all ? BucketsOf::accounts_too : BucketsOf::cluster;
  if (arguments.where.empty()) return list_buckets(session, "ls", which, json);
  if (arguments.all)
    return complain(
        "ls", {Errc::invalid_argument,
               "--all is for a list of buckets: leave it out, or leave out " + arguments.where});
  const auto place = parse_place(arguments.where);
  if (!place) return complain("ls", place.error());
  return list_objects(session, *place, arguments, json);
}

}  // namespace

void add_list_command(const CommandLine& line) {
  auto* command = line.app.add_subcommand("ls", "List buckets, or the objects of one");
  command->footer("Example:\n  tarn ls -h data/train-");
  command->set_help_flag("--help", "Print this help message and exit");
  const auto arguments = std::make_shared<ListArguments>();
  command->add_option("BUCKET[/PREFIX]", arguments->where, "all buckets when left out");
  command->add_flag("-h,--human-readable", arguments->readable, "sizes as 4.2GiB");
  command->add_flag("-n,--names", arguments->names_only, "names only");
  auto* directories = command->add_flag("-d,--directories", arguments->directories,
                                        "one level only: names up to the next / as directories");
  const auto add_source = [&](const char* flag, ListedFrom from, const char* what) {
    return command->add_flag_callback(flag, [arguments, from] { arguments->from = from; }, what);
  };
  add_source("-c,--cached", ListedFrom::cluster,
             "of a bucket with an upstream: only what the cluster has")
      ->excludes(add_source("-i,--inventory", ListedFrom::inventory,
                            "of such a bucket: what its inventory has (tarn inventory make)")
                     ->excludes(directories));
  command->add_flag("-a,--all", arguments->all,
                    "of buckets: also those that only accounts upstream have");
  line.on_session(command, "ls", [arguments, &options = line.options](Session& session) {
    return list_list(session, *arguments, options.json);
  });
}

}  // namespace tarn::cli
