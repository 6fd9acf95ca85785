#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/base/printing.h"
#include "cli/commands/admin_commands.h"
#include "common/base/encoding.h"
#include "common/base/pause.h"
#include "common/base/settings.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSafeToStopPollEvery{500};
constexpr const char* kSafeToStop = "node safe-to-stop";

struct StopWords {
  std::vector<std::string> nodes;
  std::string wait = "0s";
};

std::string stop_path(const std::vector<std::string>& nodes) {
  std::string ids;
  for (const std::string& node : nodes) ids += (ids.empty() ? "" : ",") + percent_encode(node);
  return "/v1/cluster?what=safe_to_stop&node=" + ids;
}

/// The answer of the cluster once these nodes may stop, or its last one before `limit` has passed.
Task<Result<ordered_json>> ask_until_safe(Session& session, std::vector<std::string> nodes,
                                          std::chrono::milliseconds limit) {
  const auto until = steady_clock::now() + limit;
  while (true) {
    CO_TRY(const auto answer, co_await session.call(http::Method::get, stop_path(nodes)));
    ordered_json told = ordered_json::parse(answer.body, nullptr, false);
    if (!told.is_object() || !told.contains("safe"))
      co_return fail(Errc::io, "the answer of the cluster is malformed: {}", answer.body);
    if (told.value("safe", false) || steady_clock::now() >= until) co_return told;
    co_await pause_until(std::min(until, steady_clock::now() + kSafeToStopPollEvery));
  }
}

Exit safe_to_stop(Session& session, const StopWords& words, bool json) {
  const auto limit = parse_duration(words.wait);
  if (!limit)
    return complain(kSafeToStop,
                    {Errc::invalid_argument, fmt::format("--wait: {}", limit.error().message)});
  const auto told = session.run(ask_until_safe(session, words.nodes, *limit));
  if (!told) return complain(kSafeToStop, told.error());
  const bool safe = told->value("safe", false);
  if (json) {
    print_json(*told);
  } else {
    const auto lines = [&](const char* key) { return told->value(key, ordered_json::array()); };
    for (const auto& note : lines("notes"))
      fmt::print("note: {}\n", printable(note.get<std::string>()));
    for (const auto& reason : lines("reasons"))
      fmt::print("{}\n", printable(reason.get<std::string>()));
  }
  const std::string names = fmt::format("{}", fmt::join(words.nodes, ", "));
  if (!safe)
    return complain(kSafeToStop, {Errc::internal, fmt::format("not safe to stop: {}", names)});
  if (!json) fmt::print("safe to stop: {}\n", printable(names));
  return Exit::ok;
}

}  // namespace

void add_safe_to_stop_command(const CommandLine& line, CLI::App& group) {
  auto* command = group.add_subcommand(
      "safe-to-stop", "Say whether nodes may stop at once: nothing becomes unreadable by it");
  command->footer("Example:\n  tarn node safe-to-stop tAb12Cd34 --wait 2m");
  const auto words = std::make_shared<StopWords>();
  command->add_option("NODE", words->nodes, "ids of nodes (tarn node ls)")->required();
  command->add_option("--wait", words->wait, "how long to wait at most until it is safe (0s)");
  line.on_session(command, kSafeToStop, [words, &options = line.options](Session& session) {
    return safe_to_stop(session, *words, options.json);
  });
}

}  // namespace tarn::cli
