// download: files of web servers and clouds become objects, by a job of the cluster.

#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/base/place.h"
#include "cli/base/printing.h"
#include "cli/base/progress.h"
#include "cli/commands/commands.h"
#include "cli/tools/job_progress.h"
#include "common/api/download.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kDownloadTarget = "/v1/download";

/// Arguments of `tarn download`.
struct DownloadArguments {
  std::string source;  ///< a link, a template of links, or a bucket with an upstream
  std::string goal;    ///< BUCKET, BUCKET/NAME or BUCKET/DIRECTORY/
  std::string from;    ///< a file of links
  std::string description;
  std::string prefix;
  std::string suffix;
  std::string timeout;
  std::string bytes_per_hour;
  std::uint64_t connections = 0;
  std::vector<std::string> headers;
  bool synchronize = false;
  bool wait = false;
};

Error download_usage(std::string text) { return {Errc::invalid_argument, std::move(text)}; }

ordered_json bucket_json_of(const Place& place) {
  return {{"name", place.bucket}, {"provider", place.provider}};
}

/// The name of the object of `link` in a goal that is a directory, or the goal's own.
Result<std::string> name_in_goal(const Place& goal, const std::string& link) {
  if (!goal.object.ends_with('/')) return goal.object;
  TRY(const api::Link parsed, api::parse_link(link));
  if (parsed.name.empty())
    return fail(download_usage(fmt::format("'{}' does not end in a name", link)));
  return goal.object + parsed.name;
}

/// A line each: LINK, or LINK and the name of its object after a space.
Result<ordered_json> objects_of_file(const std::string& path, const Place& goal) {
  std::ifstream file;
  if (path != "-") file.open(path);
  std::istream& in = path == "-" ? std::cin : file;
  if (!in) return fail(Errc::not_found, "{} cannot be read", path);
  Place directory = goal;
  if (!directory.object.empty() && !directory.object.ends_with('/')) directory.object += '/';
  auto objects = ordered_json::object();
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string link;
    std::string name;
    std::string more;
    words >> link >> name >> more;
    if (link.empty() || link.starts_with('#')) continue;
    if (!more.empty())
      return fail(download_usage(
          fmt::format("{}: '{}': a line is a link, or a link and a name", path, line)));
    if (name.empty()) {
      TRY(const api::Link parsed, api::parse_link(link));
      name = parsed.name;
    }
    if (name.empty())
      return fail(download_usage(fmt::format("{}: '{}' does not end in a name", path, link)));
    name.insert(0, directory.object);
    if (objects.contains(name))
      return fail(download_usage(fmt::format("{}: two links are for {}", path, name)));
    objects[name] = link;
  }
  if (objects.empty()) return fail(download_usage(path + " has no links"));
  return objects;
}

Status take_download_terms(const DownloadArguments& given, ordered_json& out) {
  if (!given.description.empty()) out["description"] = given.description;
  if (!given.timeout.empty()) out["timeout"] = given.timeout;
  auto limits = ordered_json::object();
  if (given.connections != 0) limits["connections"] = given.connections;
  if (!given.bytes_per_hour.empty()) {
    const auto bytes = parse_size(given.bytes_per_hour);
    if (!bytes) return fail(download_usage("--limit-bytes-per-hour: " + bytes.error().message));
    limits["bytes_per_hour"] = *bytes;
  }
  if (!limits.empty()) out["limits"] = limits;
  auto headers = ordered_json::object();
  for (const std::string& each : given.headers) {
    const auto colon = each.find(':');
    if (colon == std::string::npos || colon == 0)
      return fail(download_usage(fmt::format("--header '{}': NAME: VALUE is wanted", each)));
    headers[each.substr(0, colon)] = std::string(trim(std::string_view(each).substr(colon + 1)));
  }
  if (!headers.empty()) out["headers"] = headers;
  return {};
}

/// The body of POST /v1/download.
Result<ordered_json> download_order(const DownloadArguments& given, bool literal) {
  ordered_json out;
  const bool from_file = !given.from.empty();
  const std::string& goal_text = from_file ? given.source : given.goal;
  if (from_file && !given.goal.empty())
    return fail(download_usage("--from FILE BUCKET[/DIRECTORY]: the links are in the file"));
  if (given.source.empty())
    return fail(
        download_usage("what, and where to? LINK BUCKET[/NAME], --from FILE BUCKET, or a "
                       "bucket with an upstream"));
  const bool is_backend = !from_file && given.goal.empty();
  if (!is_backend && (!given.prefix.empty() || !given.suffix.empty() || given.synchronize))
    return fail(download_usage("--prefix, --suffix and --sync are of a bucket with an upstream"));
  if (is_backend) {
    TRY(const Place bucket, parse_bucket(given.source));
    out = {{"type", "backend"},
           {"bucket", bucket_json_of(bucket)},
           {"prefix", given.prefix},
           {"suffix", given.suffix},
           {"synchronize", given.synchronize}};
  } else {
    TRY(const Place goal, parse_place(goal_text));
    out["bucket"] = bucket_json_of(goal);
    if (from_file) {
      out["type"] = "multi";
      TRY(out["objects"], objects_of_file(given.from, goal));
    } else if (!literal && given.source.find('{') != std::string::npos) {
      out["type"] = "range";
      out["template"] = given.source;
      out["subdir"] = goal.object;
    } else {
      out["type"] = "single";
      out["link"] = given.source;
      TRY(out["object_name"], name_in_goal(goal, given.source));
    }
  }
  TRY_OK(take_download_terms(given, out));
  return out;
}

Task<Result<ordered_json>> ask_downloads(Session& session, ordered_json query) {
  CO_TRY(const http::ClientResponse answer,
         co_await session.call(http::Method::get, kDownloadTarget, query.dump()));
  auto out = ordered_json::parse(answer.body, nullptr, false);
  if (out.is_discarded())
    co_return fail(Errc::internal, "the cluster did not answer JSON about downloads");
  co_return out;
}

std::string state_of_download(const ordered_json& job) {
  if (job.at("aborted").get<bool>()) return "aborted";
  if (!job.at("error").get_ref<const std::string&>().empty()) return "failed";
  const auto& ended = job.at("finished_time").get_ref<const std::string&>();
  return ended.starts_with("0001-") ? "running" : "done";
}

std::string text_in(const ordered_json& job, const char* key) {
  return job.at(key).get<std::string>();
}

std::string count_in(const ordered_json& job, const char* key) {
  const auto count = job.at(key).get<std::int64_t>();
  return count < 0 ? "?" : std::to_string(count);
}

/// Exit of a download that has ended: partial when objects of it failed.
Exit tell_of_download(const ordered_json& job, const GlobalOptions& options) {
  if (options.json)
    print_json(job);
  else if (!options.quiet)
    fmt::print("{} objects, {} of them were there already, {} failed\n",
               count_in(job, "finished_cnt"), count_in(job, "skipped_cnt"),
               count_in(job, "error_cnt"));
  for (const auto& each : job.at("download_errors"))
    complain("download",
             {Errc::io, fmt::format("{}: {}", text_in(each, "name"), text_in(each, "error"))});
  return job.at("error_cnt").get<std::int64_t>() > 0 ? Exit::partial : Exit::ok;
}

Exit start_download(Session& session, const DownloadArguments& given,
                    const GlobalOptions& options) {
  const auto order = download_order(given, options.literal);
  if (!order) return complain("download", order.error());
  const auto begun = session.run(session.call(http::Method::post, kDownloadTarget, order->dump()));
  if (!begun) return complain("download", begun.error());
  const auto answer = ordered_json::parse(begun->body, nullptr, false);
  if (!answer.is_object() || !answer.contains("id"))
    return complain("download", {Errc::internal, "the cluster did not answer an id"});
  const std::string id = text_in(answer, "id");
  if (!given.wait) {
    if (options.json)
      print_json(answer);
    else
      fmt::print("{}\n", printable(id));
    return Exit::ok;
  }
  Progress progress("download", progress_style(options.quiet));
  Result<JobDetails> done;
  {
    Progress::Line line(progress, id);
    done = session.run(wait_for_job(session, id, &line.meter()));
  }
  progress.finish();
  if (!done) return complain("download", done.error());
  if (!done->complaint().empty())
    return complain("download", {Errc::io, fmt::format("job {}: {}", id, done->complaint())});
  const auto job = session.run(ask_downloads(session, {{"id", id}}));
  if (!job) return complain("download", job.error());
  return tell_of_download(*job, options);
}

Exit list_downloads(Session& session, const std::string& regex, const GlobalOptions& options) {
  const auto jobs = session.run(ask_downloads(session, {{"regex", regex}}));
  if (!jobs) return complain("download ls", jobs.error());
  if (options.json) {
    print_json(*jobs);
    return Exit::ok;
  }
  if (jobs->empty() && options.quiet) return Exit::ok;
  Table table({"JOB", "STATE", "DONE", "OF", "ERRORS", "WHAT"});
  for (const auto& job : *jobs)
    table.add({text_in(job, "id"), state_of_download(job), count_in(job, "finished_cnt"),
               count_in(job, "total"), count_in(job, "error_cnt"), text_in(job, "description")});
  table.print();
  return Exit::ok;
}

Exit show_download(Session& session, const std::string& id, const GlobalOptions& options) {
  const auto job = session.run(ask_downloads(session, {{"id", id}}));
  if (!job) return complain("download status", job.error());
  if (options.json) {
    print_json(*job);
    return Exit::ok;
  }
  fmt::print("download {}: {}\n{}\n", printable(id), state_of_download(*job),
             printable(text_in(*job, "description")));
  if (const std::string error = text_in(*job, "error"); !error.empty())
    fmt::print("{}\n", printable(error));
  fmt::print("{} of {} objects, {} of them were there already, {} failed\n",
             count_in(*job, "finished_cnt"), count_in(*job, "total"), count_in(*job, "skipped_cnt"),
             count_in(*job, "error_cnt"));
  Table table({"UNDER WAY", "RECEIVED", "OF"});
  const auto& current = job->at("current_tasks");
  for (const auto& each : current) {
    const auto bytes = parse_u64(text_in(each, "downloaded")).value_or(0);
    const auto total = parse_u64(text_in(each, "total")).value_or(0);
    table.add(
        {text_in(each, "name"), readable_size(bytes), total == 0 ? "?" : readable_size(total)});
  }
  if (!current.empty()) fmt::print("\n");
  if (!current.empty()) table.print();
  Table errors({"FAILED", "WHY"});
  const auto& failed = job->at("download_errors");
  for (const auto& each : failed) errors.add({text_in(each, "name"), text_in(each, "error")});
  if (!failed.empty()) fmt::print("\n");
  if (!failed.empty()) errors.print();
  return Exit::ok;
}

Exit end_download(Session& session, const char* word, const char* path, const std::string& id) {
  const ordered_json body{{"id", id}};
  const auto done = session.run(
      session.call(http::Method::del, std::string(kDownloadTarget) + path, body.dump()));
  if (!done) return complain(fmt::format("download {}", word), done.error());
  return Exit::ok;
}

/// A command below `tarn download`; the group, which is a command itself, runs it.
using Chosen = std::shared_ptr<std::function<Exit(Session&)>>;

void add_on_one(CLI::App& group, const Chosen& chosen, const char* word, const char* what,
                const std::function<Exit(Session&, const std::string&)>& run) {
  auto* command = group.add_subcommand(word, what);
  command->footer(fmt::format("Example:\n  tarn download {} dnl-Zk3vQ9xPw", word));
  const auto id = std::make_shared<std::string>();
  command->add_option("JOB", *id, "its id")->required();
  command->callback(
      [chosen, id, run] { *chosen = [id, run](Session& session) { return run(session, *id); }; });
}

void add_start_options(CLI::App& group, DownloadArguments& given) {
  group.add_option("SOURCE", given.source,
                   "LINK (http, https, s3, gs, az), a template of links with {0..9}, or a bucket "
                   "with an upstream");
  group.add_option("BUCKET", given.goal,
                   "where to; of one link the object's name, else a directory");
  group.add_option("--from", given.from, "file of links, a line each, and names ('-': stdin)");
  group.add_option("--limit-connections", given.connections,
                   "objects at a time on each target (8)");
  group.add_option("--limit-bytes-per-hour", given.bytes_per_hour,
                   "of the whole cluster, such as 100GiB (no limit)");
  group.add_option("--header", given.headers, "'NAME: VALUE' for the servers of links")
      ->allow_extra_args(false);
  group.add_option("--timeout", given.timeout, "of each object, such as 10m (none)");
  group.add_option("--description", given.description, "what lists show");
  group.add_option("--prefix", given.prefix, "of a bucket: names that begin so");
  group.add_option("--suffix", given.suffix, "of a bucket: names that end so");
  group.add_flag("--sync", given.synchronize, "of a bucket: evict what is gone upstream");
  group.add_flag("--wait", given.wait, "return when it has ended; 7 when objects of it failed");
}

}  // namespace

void add_download_command(const CommandLine& line) {
  auto* group = line.app.add_subcommand(
      "download", "Fetch files of web servers and clouds into a bucket, by a job of the cluster");
  group->require_subcommand(0, 1);
  group->footer(
      "Examples:\n"
      "  tarn download https://example.org/shards/train-{0000..0999}.tar imagenet/train/ --wait\n"
      "  tarn download s3://public/train/a.tar imagenet/a.tar\n"
      "  tarn download --from links.txt imagenet --limit-connections 2\n"
      "  tarn download s3://imagenet --suffix .tar");
  const auto given = std::make_shared<DownloadArguments>();
  const auto chosen = std::make_shared<std::function<Exit(Session&)>>();
  add_start_options(*group, *given);

  const auto regex = std::make_shared<std::string>();
  auto* ls = group->add_subcommand("ls", "List downloads");
  ls->footer("Example:\n  tarn download ls --regex imagenet");
  ls->add_option("--regex", *regex, "those whose description matches");
  ls->callback([chosen, regex, &options = line.options] {
    *chosen = [regex, &options](Session& session) {
      return list_downloads(session, *regex, options);
    };
  });
  add_on_one(*group, chosen, "status", "Show what is under way, and what failed",
             [&options = line.options](Session& session, const std::string& id) {
               return show_download(session, id, options);
             });
  add_on_one(*group, chosen, "stop", "Stop a download, and wait until it has ended",
             [](Session& session, const std::string& id) {
               return end_download(session, "stop", "/abort", id);
             });
  add_on_one(*group, chosen, "rm", "Forget a download that has ended",
             [](Session& session, const std::string& id) {
               return end_download(session, "rm", "/remove", id);
             });
  line.on_session(group, "download", [given, chosen, &options = line.options](Session& session) {
    return *chosen ? (*chosen)(session) : start_download(session, *given, options);
  });
}

}  // namespace tarn::cli
