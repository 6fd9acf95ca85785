#include <nlohmann/json.hpp>

#include "cli/base/confirm.h"
#include "cli/base/listing.h"
#include "cli/base/place.h"
#include "cli/base/printing.h"
#include "cli/base/progress.h"
#include "cli/commands/commands.h"
#include "cli/tools/bucket_choices.h"
#include "cli/tools/job_wait.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

/// Sends an action that leads to `done` when it is carried out twice, as it is when the first
/// answer was lost; no error then.
Result<std::optional<http::ClientResponse>> act_once(Session& session, http::Method method,
                                                     const Place& bucket, const std::string& body,
                                                     Errc done, const std::string& query = "") {
  bool repeated = false;
  auto answer = session.run(session.call(method, bucket.bucket_target() + query, body, &repeated));
  if (!answer && repeated && answer.error().code == done)
    return std::optional<http::ClientResponse>();
  if (!answer) return fail(answer.error());
  return std::optional(std::move(*answer));
}

/// "drives=2, nodes=1" in words; ", zones=1" may follow.
std::string survives_text(std::string_view field) {
  const auto any = [field](std::string_view key, std::string_view noun) {
    const auto at = field.find(key);
    const auto text = at == std::string_view::npos ? "?" : field.substr(at + key.size());
    const auto number = text.substr(0, text.find(','));
    if (number == "1") return fmt::format("any {}", noun);
    if (number == "0") return fmt::format("no {}: that takes more of them, or fewer slices", noun);
    return fmt::format("any {} {}s", number, noun);
  };
  const std::string zones =
      field.find("zones=") == std::string_view::npos ? "" : ", of " + any("zones=", "zone");
  return fmt::format("survives the loss of {}, of {}{}", any("drives=", "drive"),
                     any("nodes=", "target"), zones);
}

Exit create_bucket(Session& session, const std::string& name, const BucketChoices& choices,
                   bool json) {
  const char* const command = "bucket create";
  const auto bucket = parse_bucket(name);
  if (!bucket) return complain(command, bucket.error());
  const auto props = props_of(choices, bucket->provider);
  if (!props) return complain(command, props.error());
  const ordered_json action{{"action", "create-bck"}, {"value", *props}};
  const auto answer =
      act_once(session, http::Method::post, *bucket, action.dump(), Errc::bucket_exists);
  if (!answer) return complain(command, answer.error());
  const std::string survives(*answer ? (*answer)->field("Tarn-Survives") : "");
  if (json)
    print_json({{"bucket", bucket->bucket_display()}});
  else if (!survives.empty())
    fmt::print("{}: {}\n", printable(bucket->bucket_display()), survives_text(survives));
  return Exit::ok;
}

Exit set_bucket(Session& session, const std::string& name, const BucketChoices& choices,
                bool no_wait, const GlobalOptions& options) {
  const char* const command = "bucket set";
  const auto bucket = parse_bucket(name);
  if (!bucket) return complain(command, bucket.error());
  const auto props = props_of(choices, bucket->provider);
  if (!props) return complain(command, props.error());
  const ordered_json action{{"action", "set-bprops"}, {"value", *props}};
  const auto answer =
      session.run(session.call(http::Method::patch, bucket->bucket_target(), action.dump()));
  if (!answer) return complain(command, answer.error());
  if (!answer->body.empty())  // a job stores again the objects of before
    return tell_of_job(session, command, answer->body,
                       {bucket->bucket_display(), "changed", no_wait}, options);
  if (options.json) print_json({{"bucket", bucket->bucket_display()}});
  return Exit::ok;
}

/// Takes a bucket with an upstream out of the cluster; there everything stays. `keeps_bucket`: its
/// objects alone.
Exit evict(Session& session, const std::string& name, bool keeps_bucket, bool json) {
  const char* const command = "bucket evict";
  const auto bucket = parse_bucket(name);
  if (!bucket) return complain(command, bucket.error());
  const auto done =
      act_once(session, http::Method::del, *bucket, R"({"action":"evict-remote-bck"})",
               Errc::remote_not_known, keeps_bucket ? "&keep_bck_md=true" : "");
  if (!done) return complain(command, done.error());
  if (json) print_json({{"bucket", bucket->bucket_display()}});
  return Exit::ok;
}

Exit destroy(Session& session, const std::string& name, bool yes, bool json) {
  const Status confirmed =
      confirm(fmt::format("destroy bucket {} with all its objects", printable(name)), yes);
  if (!confirmed) return complain("bucket rm", confirmed.error());
  const auto bucket = parse_bucket(name);
  if (!bucket) return complain("bucket rm", bucket.error());
  const auto done = act_once(session, http::Method::del, *bucket, R"({"action":"destroy-bck"})",
                             Errc::bucket_not_found);
  if (!done) return complain("bucket rm", done.error());
  if (json) print_json({{"bucket", bucket->bucket_display()}});
  return Exit::ok;
}

/// "mirror.copies" and its kind, one a line.
void add_leaves(Table& table, const std::string& path, const ordered_json& value) {
  if (!value.is_object()) {
    table.add({path, value.is_string() ? value.get<std::string>() : value.dump()});
    return;
  }
  for (const auto& [key, below] : value.items())
    add_leaves(table, path.empty() ? key : fmt::format("{}.{}", path, key), below);
}

Exit bucket_show(Session& session, const std::string& name, bool json) {
  const auto bucket = parse_bucket(name);
  if (!bucket) return complain("bucket show", bucket.error());
  const auto answer = session.run(session.call(http::Method::head, bucket->bucket_target()));
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

/// Arguments of `bucket cp`.
struct CopyWords {
  std::string from;
  std::string to;
  std::string prefix;
  std::string prepend;
  bool dry_run = false;
  bool synchronize = false;
  bool no_wait = false;
};

/// Sends `action` for one bucket and another. The id of the job.
Result<std::string> begin_job(Session& session, const std::string& from, const std::string& to,
                              const ordered_json& action, bool* repeated = nullptr) {
  TRY(const Place source, parse_bucket(from));
  TRY(const Place goal, parse_bucket(to));
  const std::string path =
      source.bucket_target() + "&bck_to=" + percent_encode(goal.bucket_uname());
  TRY(const auto answer,
      session.run(session.call(http::Method::post, path, action.dump(), repeated)));
  return answer.body;
}

Exit bucket_copy(Session& session, const CopyWords& words, const GlobalOptions& options) {
  const char* const command = "bucket cp";
  const ordered_json value{{"prefix", words.prefix},
                           {"prepend", words.prepend},
                           {"dry_run", words.dry_run},
                           {"synchronize", words.synchronize}};
  const auto id =
      begin_job(session, words.from, words.to, {{"action", "copy-bck"}, {"value", value}});
  if (!id) return complain(command, id.error());
  return tell_of_job(
      session, command, *id,
      {words.from + " to " + words.to, words.dry_run ? "would copy" : "copied", words.no_wait},
      options);
}

Exit rename(Session& session, const std::string& from, const std::string& to, bool json) {
  bool repeated = false;
  const auto id = begin_job(session, from, to, {{"action", "move-bck"}}, &repeated);
  // The first answer was lost: the bucket has its new name.
  const auto goal = parse_bucket(to);
  const bool is_done =
      !id && repeated && id.error().code == Errc::bucket_not_found && goal &&
      session.run(session.call(http::Method::head, goal->bucket_target())).has_value();
  if (!id && !is_done) return complain("bucket mv", id.error());
  if (json) print_json({{"job", id ? *id : ""}});
  return Exit::ok;
}

}  // namespace

void add_bucket_commands(const CommandLine& line) {
  auto* group = line.app.add_subcommand("bucket", "Create, destroy and look at buckets");
  group->require_subcommand(1);
  const auto name = std::make_shared<std::string>();
  const auto yes = std::make_shared<bool>(false);

  auto* create = group->add_subcommand("create", "Make a bucket");
  const auto choices = std::make_shared<BucketChoices>();
  create->footer("Example:\n  tarn bucket create imagenet --ec 4+2 --layout striped");
  create->add_option("BUCKET", *name)->required();
  auto* ec = create->add_option("--ec", choices->ec, "cut objects into K data and M parity slices")
                 ->type_name("K+M");
  create
      ->add_option("--layout", choices->layout,
                   "whole: the object is kept beside its slices; striped: slices alone")
      ->check(CLI::IsMember({"whole", "striped"}))
      ->needs(ec);
  auto* copies =
      create->add_option("--copies", choices->copies, "keep so many copies of each object")
          ->check(CLI::Range(2, 32))
          ->excludes(ec);
  create->add_option("--domain", choices->domain, "where: drive (of one target) or node")
      ->check(CLI::IsMember({"drive", "node"}))
      ->needs(copies);
  create
      ->add_option("--upstream", choices->upstream,
                   "of s3://, gs://, az:// and ht://: the server that has the objects")
      ->type_name("URL")
      ->excludes(ec)
      ->excludes(copies);
  create->add_option("--set", choices->set, "any property, such as durability=strict")
      ->type_name("KEY=VALUE");
  line.on_session(create, "bucket create",
                  [name, choices, &options = line.options](Session& session) {
                    return create_bucket(session, *name, *choices, options.json);
                  });

  const auto no_wait = std::make_shared<bool>(false);
  auto* set = group->add_subcommand("set", "Change properties of a bucket");
  set->footer("Example:\n  tarn bucket set imagenet ec.enabled=true ec.data_slices=4");
  set->add_option("BUCKET", *name)->required();
  set->add_option("KEY=VALUE", choices->set, "tarn bucket show lists them")->required();
  set->add_flag("--no-wait", *no_wait,
                "where what is there must be changed, too: print the id of the job and go");
  line.on_session(set, "bucket set",
                  [name, choices, no_wait, &options = line.options](Session& session) {
                    return set_bucket(session, *name, *choices, *no_wait, options);
                  });

  auto* remove = group->add_subcommand("rm", "Destroy a bucket with all its objects");
  remove->footer("Example:\n  tarn bucket rm --yes imagenet");
  remove->add_option("BUCKET", *name)->required();
  remove->add_flag("-y,--yes", *yes, "do not ask");
  line.on_session(remove, "bucket rm", [name, yes, &options = line.options](Session& session) {
    return destroy(session, *name, *yes, options.json);
  });

  auto* take_out = group->add_subcommand(
      "evict", "Take a bucket with an upstream out of the cluster; upstream keeps its objects");
  take_out->footer("Example:\n  tarn bucket evict s3://imagenet");
  take_out->add_option("BUCKET", *name)->required();
  const auto keeps_bucket = std::make_shared<bool>(false);
  take_out->add_flag("--keep-md", *keeps_bucket,
                     "its objects alone: the bucket stays known, with its properties");
  line.on_session(take_out, "bucket evict",
                  [name, keeps_bucket, &options = line.options](Session& session) {
                    return evict(session, *name, *keeps_bucket, options.json);
                  });

  const auto words = std::make_shared<CopyWords>();
  auto* copy_all = group->add_subcommand("cp", "Copy a bucket, and wait until that is done");
  copy_all->footer("Example:\n  tarn bucket cp imagenet imagenet-backup --prefix train/");
  copy_all->add_option("FROM", words->from)->required();
  copy_all->add_option("TO", words->to, "made when it is not there")->required();
  copy_all->add_option("--prefix", words->prefix, "only objects whose names begin so");
  copy_all->add_option("--prepend", words->prepend, "goes before each new name");
  copy_all->add_flag("--sync", words->synchronize, "delete from TO what FROM does not have");
  copy_all->add_flag("--dry-run", words->dry_run, "count, and copy nothing");
  copy_all->add_flag("--no-wait", words->no_wait, "print the id of the job and go");
  line.on_session(copy_all, "bucket cp", [words, &options = line.options](Session& session) {
    return bucket_copy(session, *words, options);
  });

  auto* move = group->add_subcommand("mv", "Give a bucket another name");
  move->footer("Example:\n  tarn bucket mv imagenet imagenet-2012");
  move->add_option("FROM", words->from)->required();
  move->add_option("TO", words->to)->required();
  line.on_session(move, "bucket mv", [words, &options = line.options](Session& session) {
    return rename(session, words->from, words->to, options.json);
  });

  auto* list = group->add_subcommand("ls", "List the buckets");
  list->footer("Example:\n  tarn bucket ls --all");
  const auto all = std::make_shared<bool>(false);
  list->add_flag("-a,--all", *all, "also those that only accounts upstream have");
  line.on_session(list, "bucket ls", [all, &options = line.options](Session& session) {
    const auto which = *all ? BucketsOf::accounts_too : BucketsOf::cluster;
    return list_buckets(session, "bucket ls", which, options.json);
  });

  auto* show_one = group->add_subcommand("show", "Show the properties of a bucket");
  show_one->footer("Example:\n  tarn bucket show imagenet");
  show_one->add_option("BUCKET", *name)->required();
  line.on_session(show_one, "bucket show", [name, &options = line.options](Session& session) {
    return bucket_show(session, *name, options.json);
  });
}

}  // namespace tarn::cli
