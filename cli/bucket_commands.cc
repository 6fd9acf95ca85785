#include <iostream>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/place.h"
#include "cli/printing.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

std::string path_of(const std::string& bucket) {
  return "/v1/buckets/" + percent_encode(bucket) + "?provider=ais";
}

Exit act(Session& session, const char* command, http::Method method, const std::string& name,
         const char* body) {
  const auto bucket = parse_bucket(name);
  if (!bucket) return complain(command, bucket.error());
  const auto answer = session.run(session.call(method, path_of(*bucket), body));
  return answer ? Exit::ok : complain(command, answer.error());
}

/// Asks a person who sits at a terminal; scripts mean what they say.
bool confirmed(const std::string& name) {
  if (::isatty(STDIN_FILENO) == 0) return true;
  fmt::print(stderr, "destroy bucket {} with all its objects? [y/N] ", printable(name));
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

Exit destroy(Session& session, const std::string& name, bool yes) {
  if (!yes && !confirmed(name)) return complain("bucket rm", {Errc::cancelled, "not confirmed"});
  return act(session, "bucket rm", http::Method::del, name, R"({"action":"destroy-bck"})");
}

/// "mirror.copies" and its kind, one a line.
void add_leaves(Table& table, const std::string& path, const ordered_json& value) {
  if (!value.is_object()) {
    table.add({path, value.is_string() ? printable(value.get<std::string>()) : value.dump()});
    return;
  }
  for (const auto& [key, below] : value.items())
    add_leaves(table, path.empty() ? key : path + "." + key, below);
}

Exit show(Session& session, const std::string& name, bool json) {
  const auto bucket = parse_bucket(name);
  if (!bucket) return complain("bucket show", bucket.error());
  const auto answer = session.run(session.call(http::Method::head, path_of(*bucket)));
  if (!answer) return complain("bucket show", answer.error());
  const auto props = ordered_json::parse(answer->field("Ais-Bucket-Props"), nullptr, false);
  if (!props.is_object())
    return complain("bucket show", {Errc::io, "the answer has no properties of the bucket"});
  if (json) {
    print_json(props);
    return Exit::ok;
  }
  Table table({"PROPERTY", "VALUE"});
  add_leaves(table, "", props);
  table.print();
  return Exit::ok;
}

}  // namespace

void add_bucket_commands(const CommandLine& line) {
  auto* group = line.app.add_subcommand("bucket", "Create, destroy and look at buckets");
  group->require_subcommand(1);
  const auto name = std::make_shared<std::string>();
  const auto yes = std::make_shared<bool>(false);

  auto* create = group->add_subcommand("create", "Make a bucket");
  create->footer("Example:\n  tarn bucket create imagenet");
  create->add_option("BUCKET", *name)->required();
  line.on_session(create, "bucket create", [name](Session& session) {
    return act(session, "bucket create", http::Method::post, *name,
               R"({"action":"create-bck","value":null})");
  });

  auto* remove = group->add_subcommand("rm", "Destroy a bucket with all its objects");
  remove->footer("Example:\n  tarn bucket rm --yes imagenet");
  remove->add_option("BUCKET", *name)->required();
  remove->add_flag("-y,--yes", *yes, "do not ask");
  line.on_session(remove, "bucket rm",
                  [name, yes](Session& session) { return destroy(session, *name, *yes); });

  auto* list = group->add_subcommand("ls", "List the buckets");
  list->footer("Example:\n  tarn bucket ls --json");
  line.on_session(list, "bucket ls", [&options = line.options](Session& session) {
    return list_buckets(session, "bucket ls", options.json);
  });

  auto* show_one = group->add_subcommand("show", "Show the properties of a bucket");
  show_one->footer("Example:\n  tarn bucket show imagenet");
  show_one->add_option("BUCKET", *name)->required();
  line.on_session(show_one, "bucket show", [name, &options = line.options](Session& session) {
    return show(session, *name, options.json);
  });
}

}  // namespace tarn::cli
