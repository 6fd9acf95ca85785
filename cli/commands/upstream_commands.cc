// prefetch and evict: the objects that the cluster has of a bucket with an upstream.

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/base/place.h"
#include "cli/base/printing.h"
#include "cli/commands/commands.h"
#include "cli/tools/job_wait.h"
#include "cli/tools/object_selection.h"

namespace tarn::cli {
namespace {

struct UpstreamArguments {
  std::string bucket;
  ObjectSelection many;
};

/// One of the two commands: its word, the action of the API, and its description.
struct UpstreamCommand {
  const char* word;
  const char* action;
  http::Method method;
  const char* done;
};
constexpr UpstreamCommand kPrefetch{"prefetch", "prefetch-listrange", http::Method::post,
                                    "fetched"};
constexpr UpstreamCommand kEvict{"evict", "evict-listrange", http::Method::del, "evicted"};

Exit carry_out(Session& session, const UpstreamCommand& command, const UpstreamArguments& arguments,
               const GlobalOptions& options) {
  const auto bucket = parse_bucket(arguments.bucket);
  if (!bucket) return complain(command.word, bucket.error());
  const auto value = arguments.many.message();
  if (!value) return complain(command.word, value.error());
  const nlohmann::ordered_json action{{"action", command.action}, {"value", *value}};
  const auto id = session.run(session.call(command.method, bucket->bucket_target(), action.dump()));
  if (!id) return complain(command.word, id.error());
  const std::string done =
      arguments.many.dry_run ? fmt::format("would be {}", command.done) : command.done;
  return tell_of_job(
      session, command.word, id->body,
      {arguments.many.display(bucket->bucket_display()), done, arguments.many.no_wait}, options);
}

void add(const CommandLine& line, const UpstreamCommand& command, const char* what,
         const char* examples) {
  auto* added = line.app.add_subcommand(command.word, what);
  added->footer(examples);
  const auto arguments = std::make_shared<UpstreamArguments>();
  added->add_option("BUCKET", arguments->bucket)->required();
  arguments->many.add_to(added);
  line.on_session(added, command.word,
                  [arguments, &command, &options = line.options](Session& session) {
                    return carry_out(session, command, *arguments, options);
                  });
}

}  // namespace

void add_upstream_commands(const CommandLine& line) {
  add(line, kPrefetch, "Fetch objects of a bucket from its upstream before they are read",
      "Examples:\n"
      "  tarn prefetch s3://imagenet --all\n"
      "  tarn prefetch s3://imagenet --template 'train-{000000..000099}.tar'");
  add(line, kEvict, "Take objects of a bucket with an upstream out of the cluster",
      "Example:\n  tarn evict s3://imagenet --prefix old/");
}

}  // namespace tarn::cli
