#include <array>

#include <nlohmann/json.hpp>

#include "cli/base/node_call.h"
#include "cli/base/printing.h"
#include "cli/commands/admin_commands.h"
#include "common/base/pause.h"

namespace tarn::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::milliseconds kDrivePollEvery{200};
constexpr std::chrono::seconds kCloseWait{60};
constexpr std::chrono::seconds kEmptyWait{2};  // unless --wait is set

/// AIStore's lists.
constexpr std::array<const char*, 3> kDriveLists{"available", "waiting_dd", "disabled"};

Result<ordered_json> parsed(const std::string& text) {
  auto out = ordered_json::parse(text, nullptr, false);
  if (!out.is_object()) return fail(Errc::io, "the answer is no list of drives");
  return out;
}

Task<Result<ordered_json>> all_drives(Session& session) {
  CO_TRY(const auto answer,
         co_await session.call(http::Method::get, "/v1/cluster?what=mountpaths&partial=true"));
  co_return parsed(answer.body);
}

/// Entry of a drive in `key`, which is a word of it by path: "states", "notes"; empty: none.
std::string word_on(const ordered_json& lists, const char* key, const ordered_json& path) {
  const auto words = lists.find(key);
  if (words == lists.end() || !words->is_object() || !path.is_string()) return "";
  const auto word = words->find(path.get<std::string>());
  return word != words->end() && word->is_string() ? word->get<std::string>() : "";
}

/// {"read":2}: errors of a drive since its target's start; mostly nothing.
ordered_json errors_on(const ordered_json& lists, const ordered_json& path) {
  const auto errors = lists.find("errors");
  if (errors == lists.end() || !errors->is_object() || !path.is_string())
    return ordered_json::object();
  return errors->value(path.get<std::string>(), ordered_json::object());
}

/// "2 read, 1 sync"
std::string drive_text_of(const ordered_json& errors) {
  std::string out;
  for (const auto& [kind, count] : errors.items())
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count.dump(), kind);
  return out.empty() ? "-" : out;
}

Exit drive_list(Session& session, bool json) {
  const auto nodes = session.run(all_drives(session));
  if (!nodes) return complain("drive ls", nodes.error());
  auto rows = ordered_json::array();
  Exit exit = Exit::ok;
  for (const auto& [node, lists] : nodes->items()) {
    if (const std::string why = lists.value("error", ""); !why.empty()) {
      complain("drive ls", {Errc::unavailable, why});
      exit = Exit::partial;
    }
    for (const char* key : kDriveLists)
      for (const auto& path : lists.value(key, ordered_json::array()))
        rows.push_back({{"node", node},
                        {"drive", path},
                        {"state", word_on(lists, "states", path)},
                        {"errors", errors_on(lists, path)},
                        {"note", word_on(lists, "notes", path)}});
  }
  if (json) {
    print_json(rows);
    return exit;
  }
  Table table({"NODE", "DRIVE", "STATE", "ERRORS", "NOTE"});
  for (const auto& row : rows)
    table.add({row["node"].get<std::string>(), row["drive"].get<std::string>(),
               row["state"].get<std::string>(), drive_text_of(row["errors"]),
               row["note"].get<std::string>()});
  table.print();
  return exit;
}

/// Arguments of a change of a drive.
struct DriveWords {
  std::string node;
  std::string path;
  bool force = false;
  bool wait = false;
};

/// A change: AIStore's action and its method.
struct Change {
  const char* name;
  const char* action;
  http::Method method;
  const char* what;
  bool may_force;
};
constexpr std::array<Change, 4> kChanges{
    {{"attach", "attach-mp", http::Method::put,
      "Take an empty drive, or one that was detached, into use", false},
     {"detach", "detach-mp", http::Method::del,
      "Take a drive away for good; what lies on it alone moves to the others first", true},
     {"disable", "disable-mp", http::Method::post,
      "Put a drive out of use until it is enabled; what lies on it alone moves first", true},
     {"enable", "enable-mp", http::Method::post, "Put a drive into use again", false}}};

Task<Result<bool>> is_leaving(Session& session, const DriveWords& words) {
  CO_TRY(const std::string text,
         co_await call_node(session, http::Method::get, words.node, "/daemon?what=mountpaths"));
  CO_TRY(const auto lists, parsed(text));
  for (const auto& path : lists.value("waiting_dd", ordered_json::array()))
    if (path == words.path) co_return true;
  co_return false;
}

/// Waits until the drive may be unmounted, or is out of use. True: it is still being emptied.
Task<Result<bool>> drive_wait_gone(Session& session, DriveWords words) {
  const auto begun = std::chrono::steady_clock::now();
  while (true) {
    CO_TRY(const bool leaving, co_await is_leaving(session, words));
    const auto waited = std::chrono::steady_clock::now() - begun;
    if (!leaving) co_return false;
    if (!words.force && !words.wait && waited > kEmptyWait) co_return true;
    if (words.force && waited > kCloseWait)
      co_return fail(Errc::timeout,
                     "drive {} is detached, but requests still read there: do not unmount it "
                     "while tarn drive ls shows it",
                     words.path);
    co_await pause(kDrivePollEvery);
  }
}

/// True: it will be done when the drive is empty.
Task<Result<bool>> change_drive(Session& session, Change change, DriveWords words) {
  const ordered_json message{{"action", change.action}, {"name", ""}, {"value", words.path}};
  std::string path = "/daemon/mountpaths";
  if (words.force) path += "?dntres=true";
  CO_TRY_OK(co_await call_node(session, change.method, words.node, path, message.dump()));
  if (!change.may_force) co_return false;
  co_return co_await drive_wait_gone(session, std::move(words));
}

}  // namespace

void add_drive_commands(const CommandLine& line) {
  auto* group = line.app.add_subcommand("drive", "Look at the drives of targets, and change them");
  group->require_subcommand(1);
  auto* show = group->add_subcommand("ls", "List all drives");
  show->footer("Example:\n  tarn drive ls");
  line.on_session(show, "drive ls", [&options = line.options](Session& session) {
    return drive_list(session, options.json);
  });
  for (const Change& change : kChanges) {
    auto* command = group->add_subcommand(change.name, change.what);
    command->footer(fmt::format("Example:\n  tarn drive {} tAb12Cd34 /srv/d3", change.name));
    const auto words = std::make_shared<DriveWords>();
    command->add_option("NODE", words->node, "id of a target (tarn cluster status)")->required();
    command->add_option("PATH", words->path, "absolute path of the drive on that machine")
        ->required();
    if (change.may_force) {
      command->add_flag("--force", words->force, "at once, although objects lie on it alone");
      command->add_flag("--wait", words->wait, "return when the drive is empty and gone");
    }
    const std::string name = std::string("drive ") + change.name;
    line.on_session(command, name, [=, &options = line.options](Session& session) {
      const auto leaving = session.run(change_drive(session, change, *words));
      if (!leaving) return complain(name, leaving.error());
      if (options.json)
        print_json({{"node", words->node}, {"drive", words->path}, {"leaving", *leaving}});
      else if (*leaving)
        fmt::print("objects move to the other drives first: tarn drive ls shows {} as leaving\n",
                   printable(words->path));
      return Exit::ok;
    });
  }
}

}  // namespace tarn::cli
