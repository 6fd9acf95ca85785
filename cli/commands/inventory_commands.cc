// inventory make, show and rm: snapshots of what the upstream of a bucket lists.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/base/place.h"
#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/tools/job_wait.h"
#include "common/base/read_json.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

struct InventoryArguments {
  std::string bucket;
  std::string name;
  std::string prefix;
  bool force = false;
  bool no_wait = false;
};

/// One call about the inventories of a bucket.
Result<http::ClientResponse> call(Session& session, const Place& bucket, http::Method method,
                                  const char* action, const std::string& name,
                                  ordered_json value = nullptr) {
  const ordered_json message{{"action", action}, {"name", name}, {"value", std::move(value)}};
  return session.run(session.call(method, bucket.bucket_target(), message.dump()));
}

Exit make_inventory(Session& session, const InventoryArguments& arguments,
                    const GlobalOptions& options) {
  constexpr const char* kCommand = "inventory make";
  const auto bucket = parse_bucket(arguments.bucket);
  if (!bucket) return complain(kCommand, bucket.error());
  const ordered_json value{
      {"name", arguments.name}, {"prefix", arguments.prefix}, {"force", arguments.force}};
  const auto id = call(session, *bucket, http::Method::post, "create-inventory", "", value);
  if (!id) return complain(kCommand, id.error());
  return tell_of_job(session, kCommand, id->body,
                     {bucket->bucket_display(), "listed", arguments.no_wait}, options);
}

Exit show_inventory(Session& session, const InventoryArguments& arguments, bool as_json) {
  constexpr const char* kCommand = "inventory show";
  const auto bucket = parse_bucket(arguments.bucket);
  if (!bucket) return complain(kCommand, bucket.error());
  const auto answer = call(session, *bucket, http::Method::get, "show-inventory", arguments.name);
  if (!answer) return complain(kCommand, answer.error());
  const Status shown = read_json(Errc::io, "malformed answer", [&] {
    const auto all = ordered_json::parse(answer->body);
    ordered_json list = ordered_json::array();
    Table table({"NAME", "OBJECTS", "SIZE", "CHUNKS", "PREFIX"});
    for (const auto& [object, each] : all.items()) {
      list.push_back(each);
      table.add({each.at("name"), each.at("ntotal").dump(), readable_size(each.at("size")),
                 each.at("chunks").dump(), each.at("prefix")});
    }
    if (as_json)
      print_json(list);
    else
      table.print();
  });
  return shown ? Exit::ok : complain(kCommand, shown.error());
}

Exit remove_inventory(Session& session, const InventoryArguments& arguments) {
  constexpr const char* kCommand = "inventory rm";
  const auto bucket = parse_bucket(arguments.bucket);
  if (!bucket) return complain(kCommand, bucket.error());
  const auto done = call(session, *bucket, http::Method::del, "destroy-inventory", arguments.name);
  return done ? Exit::ok : complain(kCommand, done.error());
}

}  // namespace

void add_inventory_commands(const CommandLine& line) {
  auto* group = line.app.add_subcommand(
      "inventory", "Snapshots of what the upstream of a bucket lists, for tarn ls --inventory");
  group->require_subcommand(1);
  const auto arguments = std::make_shared<InventoryArguments>();

  auto* make = group->add_subcommand("make", "List a bucket upstream, and keep that");
  make->footer("Example:\n  tarn inventory make s3://imagenet --force");
  make->add_option("BUCKET", arguments->bucket)->required();
  make->add_option("--name", arguments->name, "of the inventory; made up when left out");
  make->add_option("--prefix", arguments->prefix, "only objects whose names begin so");
  make->add_flag("--force", arguments->force, "in place of the one that there is");
  make->add_flag("--no-wait", arguments->no_wait, "print the id of the job and go");
  line.on_session(make, "inventory make", [arguments, &options = line.options](Session& session) {
    return make_inventory(session, *arguments, options);
  });

  auto* show = group->add_subcommand("show", "Show the inventory of a bucket");
  show->footer("Example:\n  tarn inventory show s3://imagenet");
  show->add_option("BUCKET", arguments->bucket)->required();
  line.on_session(show, "inventory show", [arguments, &options = line.options](Session& session) {
    return show_inventory(session, *arguments, options.json);
  });

  auto* remove = group->add_subcommand("rm", "Remove the inventory of a bucket");
  remove->footer("Example:\n  tarn inventory rm s3://imagenet");
  remove->add_option("BUCKET", arguments->bucket)->required();
  line.on_session(remove, "inventory rm",
                  [arguments](Session& session) { return remove_inventory(session, *arguments); });
}

}  // namespace tarn::cli
