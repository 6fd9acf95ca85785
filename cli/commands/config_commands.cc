#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/base/node_call.h"
#include "cli/base/printing.h"
#include "cli/commands/admin_commands.h"
#include "common/base/encoding.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

/// Arguments of the three commands.
struct ConfigWords {
  std::vector<std::string> names;  ///< or KEY=VALUE
  std::string node;                ///< empty: the whole cluster
  bool transient = false;
};

void config_collect(const std::string& path, const ordered_json& value, ordered_json& flat) {
  if (!value.is_object()) {
    flat[path] = value;
    return;
  }
  for (const auto& [key, below] : value.items())
    config_collect(path.empty() ? key : fmt::format("{}.{}", path, key), below, flat);
}

bool is_wanted(const std::string& name, const std::vector<std::string>& wanted) {
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const auto& each) {
           return name == each || name.starts_with(each + ".");
         });
}

Task<Result<std::string>> read_config(Session& session, std::string node) {
  if (!node.empty())
    co_return co_await call_node(session, http::Method::get, node, "/daemon?what=config");
  CO_TRY(const auto answer,
         co_await session.call(http::Method::get, "/v1/cluster?what=cluster_config"));
  co_return answer.body;
}

Exit config_get(Session& session, const ConfigWords& words, bool json) {
  const auto text = session.run(read_config(session, words.node));
  if (!text) return complain("cluster config get", text.error());
  const auto tree = ordered_json::parse(*text, nullptr, false);
  if (!tree.is_object())
    return complain("cluster config get", {Errc::io, "the answer is no configuration"});
  ordered_json flat = ordered_json::object();
  config_collect("", tree, flat);
  ordered_json shown = ordered_json::object();
  for (const auto& [name, value] : flat.items())
    if (is_wanted(name, words.names)) shown[name] = value;
  if (shown.empty())
    return complain("cluster config get",
                    {Errc::not_found,
                     "there is no setting of that name: without a name all are "
                     "shown"});
  if (json) {
    print_json(shown);
    return Exit::ok;
  }
  Table table({"SETTING", "VALUE"});
  for (const auto& [name, value] : shown.items())
    table.add({name, value.is_string() ? value.get<std::string>() : value.dump()});
  table.print();
  return Exit::ok;
}

/// "log.level=debug&space.highwm=80"; empty, with the fault, for a word that is no KEY=VALUE.
Result<std::string> query_of(const ConfigWords& words) {
  std::string out;
  for (const std::string& word : words.names) {
    const auto equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      return fail(Errc::invalid_argument, "'{}' is no KEY=VALUE", word);
    out += percent_encode(word.substr(0, equals)) + "=" + percent_encode(word.substr(equals + 1)) +
           "&";
  }
  return out + (words.transient ? "transient=true" : "transient=false");
}

Task<Status> put(Session& session, std::string node, std::string path, std::string body) {
  if (!node.empty()) {
    CO_TRY_OK(co_await call_node(session, http::Method::put, node, "/daemon" + path, body));
    co_return Status();
  }
  CO_TRY_OK(co_await session.call(http::Method::put, "/v1/cluster" + path, body));
  co_return Status();
}

Exit set(Session& session, const ConfigWords& words, bool json) {
  const auto query = query_of(words);
  if (!query) return complain("cluster config set", query.error());
  const Status done = session.run(put(session, words.node, "/set-config?" + *query, ""));
  if (!done) return complain("cluster config set", done.error());
  if (json) print_json({{"set", words.names}, {"transient", words.transient}});
  return Exit::ok;
}

Exit reset(Session& session, const ConfigWords& words, bool json) {
  if (!words.names.empty() && !words.node.empty())
    return complain(
        "cluster config reset",
        {Errc::invalid_argument, "--node forgets all that the node was told alone: without names"});
  ordered_json message{{"action", "reset-config"}, {"name", ""}, {"value", nullptr}};
  if (!words.names.empty()) message["value"] = words.names;
  const Status done = session.run(put(session, words.node, "", message.dump()));
  if (!done) return complain("cluster config reset", done.error());
  if (json) print_json({{"reset", words.names}});
  return Exit::ok;
}

}  // namespace

void add_config_commands(const CommandLine& line, CLI::App& cluster_group) {
  auto* group = cluster_group.add_subcommand("config", "Show and change settings of running nodes");
  group->require_subcommand(1);
  using Run = Exit (*)(Session&, const ConfigWords&, bool);
  const auto add = [&](const char* name, const char* what, const char* example, Run run) {
    const auto words = std::make_shared<ConfigWords>();
    auto* command = group->add_subcommand(name, what);
    command->footer(std::string("Example:\n  tarn cluster config ") + example);
    command->add_option("--node", words->node, "one node's own, by its id (tarn cluster status)");
    line.on_session(command, std::string("cluster config ") + name,
                    [words, run, &options = line.options](Session& session) {
                      return run(session, *words, options.json);
                    });
    return std::pair(command, words);
  };
  const auto [show, shown] =
      add("get", "Show settings, all or those of a section", "get log", config_get);
  show->add_option("NAME", shown->names, "settings or sections");
  const auto [change, changed] =
      add("set", "Change settings, at once and over restarts", "set log.level=debug", set);
  change->add_option("KEY=VALUE", changed->names, "settings (docs/configuration.md)")->required();
  change->add_flag("--transient", changed->transient, "only until the nodes end");
  const auto [forget, forgotten] =
      add("reset",
          "Give settings their defaults; without names: nodes forget what they were told alone",
          "reset log.level", reset);
  forget->add_option("NAME", forgotten->names, "settings");
}

}  // namespace tarn::cli
