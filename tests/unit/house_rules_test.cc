// House rules that a machine can see: which folder and which room includes which, and words that
// the design rules out.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace house_rules_test {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>> kMayInclude{
    {"common/base", {"common/base"}},
    {"common/api", {"common/base", "common/api"}},
    {"common/obs", {"common/base", "common/obs"}},
    {"common/io", {"common/base", "common/api", "common/obs", "common/io"}},
    {"common/security", {"common/base", "common/api", "common/security"}},
    {"common/http",
     {"common/base", "common/api", "common/obs", "common/io", "common/security", "common/http"}},
    {"common/cluster",
     {"common/base", "common/api", "common/obs", "common/io", "common/security", "common/http",
      "common/cluster"}},
    {"ec", {"common/base", "ec"}},
};

using Rows = std::vector<std::vector<std::string>>;

/// Rooms of folders, lowest row first: a file includes its own room and those of rows before. Rooms
/// of one row do not include each other. "" is the folder itself. Its main.cc includes any room.
const std::map<std::string, Rows> kRooms{
    {"common/cluster", {{"place"}, {"store"}, {"state"}, {"node"}, {"admin"}}},
    {"cli", {{"base"}, {"transfer"}, {"shards", "drives", "tools"}, {"commands"}, {""}}},
    {"proxy", {{"core"}, {"watch"}, {"object"}, {"list"}, {"jobs"}, {"bucket"}, {"admin"}, {""}}},
    {"target",
     {{"drive"},
      {"store"},
      {"node"},
      {"replica"},
      {"coded"},
      {"commit"},
      {"repair", "rebalance"},
      {"request", "job", "drives"},
      {""},
      {"upstream"},
      {"process"}}},
};

std::string folder_of(const std::string& path) {
  const auto first = path.find('/');
  std::string top = path.substr(0, first);
  if (top != "common") return top;
  return path.substr(0, path.find('/', first + 1));
}

bool may_include(const std::string& from, const std::string& to) {
  if (from == "tests") return true;
  if (const auto row = kMayInclude.find(from); row != kMayInclude.end())
    return row->second.count(to) > 0;
  return from == to || to.rfind("common/", 0) == 0 || (to == "ec" && from != "proxy");
}

/// The folder below folder_of(path) in which a file lies; "" for a file of the folder itself.
std::string room_of(const std::string& path) {
  const std::string rest = path.substr(folder_of(path).size() + 1);
  const auto slash = rest.find('/');
  return slash == std::string::npos ? "" : rest.substr(0, slash);
}

std::optional<std::size_t> row_of(const Rows& rows, const std::string& room) {
  for (std::size_t row = 0; row < rows.size(); ++row)
    if (std::find(rows[row].begin(), rows[row].end(), room) != rows[row].end()) return row;
  return std::nullopt;
}

/// Returns the reason why file `from` must not include file `to`; "" if it may.
std::string objection(const std::string& from, const std::string& to) {
  const std::string folder = folder_of(from);
  if (!may_include(folder, folder_of(to)))
    return folder + " must not include " + folder_of(to) + " (docs/architecture.md)";
  const auto rooms = kRooms.find(folder);
  if (rooms == kRooms.end() || folder_of(to) != folder) return "";
  const auto row = row_of(rooms->second, room_of(from));
  const auto lower = row_of(rooms->second, room_of(to));
  if (!row || !lower) return "there is no such room: see " + folder + "/README.md";
  if (from == folder + "/main.cc") return "";
  if (room_of(from) == room_of(to) || *lower < *row) return "";
  return "room '" + room_of(from) + "' must not include room '" + room_of(to) + "' (" + folder +
         "/README.md)";
}

struct Source {
  std::string path;  // relative to the top
  std::string text;
};

/// Paths of our own files that a file includes.
std::vector<std::string> includes_of(const Source& source) {
  static const std::regex include("#include \"([^\"]+)\"");
  std::vector<std::string> out;
  for (std::sregex_iterator at(source.text.begin(), source.text.end(), include), end; at != end;
       ++at)
    out.push_back((*at)[1]);
  return out;
}

/// Objections to the includes of a file.
std::vector<std::string> wrong_includes(const Source& source) {
  std::vector<std::string> out;
  for (const std::string& included : includes_of(source))
    if (const std::string why = objection(source.path, included); !why.empty())
      out.push_back(fmt::format("{} includes {}: {}", source.path, included, why));
  return out;
}

std::vector<Source> sources(const std::vector<std::string>& folders = {"common", "target", "proxy",
                                                                       "cli", "ec"}) {
  std::vector<Source> out;
  const fs::path top = TARN_SOURCE_DIR;
  for (const std::string& folder : folders) {
    if (!fs::exists(top / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(top / folder)) {
      const auto ending = entry.path().extension();
      if (ending != ".h" && ending != ".cc") continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      out.push_back({fs::relative(entry.path(), top).string(), text.str()});
    }
  }
  return out;
}

TEST_CASE("house rules: includes point one way", "[house]") {
  std::size_t checked = 0;
  for (const Source& source : sources()) {
    CHECK(wrong_includes(source) == std::vector<std::string>{});
    checked += includes_of(source).size();
  }
  CHECK(checked > 200);
}

TEST_CASE("house rules: an include against the order is noticed", "[house]") {
  const auto wrong = [](const std::string& from, const std::string& to) {
    return wrong_includes({from, "#include <map>\n\n#include \"" + to + "\"\n"}).size() == 1;
  };
  // Folders.
  CHECK(wrong("proxy/core/leads.h", "target/node/node.h"));
  CHECK(wrong("common/http/server.h", "common/cluster/state/state.h"));
  CHECK_FALSE(wrong("target/node/node.h", "common/cluster/admin/node_routes.h"));
  // A room and a higher one, the other way round, and its own.
  CHECK(wrong("common/cluster/place/hrw.cc", "common/cluster/store/keys.h"));
  CHECK_FALSE(wrong("common/cluster/state/state.cc", "common/cluster/store/keys.h"));
  CHECK_FALSE(wrong("common/cluster/place/hrw.cc", "common/cluster/place/hrw.h"));
  // Rooms side by side.
  CHECK(wrong("cli/shards/spool.h", "cli/drives/drive_scan.h"));
  CHECK_FALSE(wrong("cli/shards/spool.h", "cli/transfer/source.h"));
  // The folder itself stands above its rooms, or among them.
  CHECK(wrong("proxy/admin/job_kinds.cc", "proxy/routes.h"));
  CHECK_FALSE(wrong("proxy/routes.cc", "proxy/admin/cluster_queries.h"));
  CHECK(wrong("target/drive/drive.h", "target/node/node.h"));
  CHECK(wrong("target/request/get.cc", "target/upstream/space.h"));
  CHECK_FALSE(wrong("target/upstream/space.cc", "target/node/node.h"));
  CHECK_FALSE(wrong("target/process/target.h", "target/upstream/space.h"));
  CHECK(wrong("target/upstream/space.h", "target/process/target.h"));
  CHECK_FALSE(wrong("target/main.cc", "target/process/target.h"));
  // A room that is not in the table.
  CHECK(wrong("proxy/attic/old.h", "proxy/core/services.h"));
  CHECK(wrong("common/cluster/loose.h", "common/cluster/place/hrw.h"));
}

TEST_CASE("house rules: each file lies in a room, and each room has a short page", "[house]") {
  std::set<std::string> found;  // folder/room
  for (const Source& source : sources()) {
    const auto rooms = kRooms.find(folder_of(source.path));
    if (rooms == kRooms.end()) continue;
    INFO(source.path << ": put it into a room of " << rooms->first << "/README.md");
    CHECK(row_of(rooms->second, room_of(source.path)).has_value());
    found.insert(fmt::format("{}/{}", rooms->first, room_of(source.path)));
  }
  for (const auto& [folder, rows] : kRooms)
    for (const auto& row : rows)
      for (const std::string& room : row) {
        INFO(folder << "/" << room);
        CHECK(found.contains(fmt::format("{}/{}", folder, room)));
        std::ifstream page(fs::path(TARN_SOURCE_DIR) / folder / room / "README.md");
        std::size_t lines = 0;
        for (std::string line; std::getline(page, line);) ++lines;
        CHECK(lines > 5);
        CHECK(lines <= 30);
      }
}

TEST_CASE("house rules: Beast appears in headers of common/http only", "[house]") {
  for (const Source& source : sources()) {
    if (source.path.rfind("common/http/", 0) == 0 || source.path.find(".cc") != std::string::npos)
      continue;
    INFO(source.path);
    CHECK(source.text.find("boost/beast") == std::string::npos);
  }
}

TEST_CASE("house rules: no body in memory whole, nobody unwaited for, no blocked thread",
          "[house]") {
  const std::regex banned(
      "file_body|string_body|asio::detached|std::this_thread::sleep|"
      "TODO|FIXME|XXX");
  for (const Source& source : sources()) {
    if (source.path == "common/base/fail_points.cc") continue;  // its business is to sleep
    INFO(source.path);
    std::smatch found;
    const bool has = std::regex_search(source.text, found, banned);
    INFO("found: " << (has ? found.str() : ""));
    CHECK_FALSE(has);
  }
}

/// `auto* x = view.state()->...`: the state may be replaced, and die, while the pointer is in use.
const std::regex& pointer_into_no_state() {
  static const std::regex out(R"(\*\s*\w+\s*=\s*[\w.>-]*\bstate\(\)->)");
  return out;
}

TEST_CASE("house rules: a pointer into the cluster's state does not outlive it", "[house]") {
  CHECK(std::regex_search("  if (const auto* b = node.view.state()->bmd.find(id); b != nullptr)",
                          pointer_into_no_state()));
  CHECK(std::regex_search("const Node* self =\n      view_.state()->map.find(id);",
                          pointer_into_no_state()));
  CHECK_FALSE(std::regex_search("const auto* b = state->bmd.find(id);", pointer_into_no_state()));
  for (const Source& source : sources()) {
    INFO(source.path);
    CHECK_FALSE(std::regex_search(source.text, pointer_into_no_state()));
  }
}

/// Mutexes and locks of the standard library, which -Wthread-safety does not see.
const std::regex& lock_unknown_to_analysis() {
  static const std::regex out(
      R"(std::(\w*mutex|lock_guard|unique_lock|scoped_lock|shared_lock|condition_variable\w*)\b)");
  return out;
}

TEST_CASE("house rules: the compiler knows each mutex", "[house]") {
  const auto wrong = [](const std::string& text) {
    return std::regex_search(text, lock_unknown_to_analysis());
  };
  CHECK(wrong("  mutable std::mutex mutex_;"));
  CHECK(wrong("  std::shared_mutex mutex_;"));
  CHECK(wrong("  const std::lock_guard lock(mutex_);"));
  CHECK(wrong("  std::unique_lock<Mutex> lock(mutex_);"));
  CHECK(wrong("  const std::scoped_lock lock(one_, other_);"));
  CHECK(wrong("  std::condition_variable changed_;"));
  CHECK_FALSE(wrong("  const MutexLock lock(mutex_);"));
  CHECK_FALSE(wrong("#include <mutex>\n  std::once_flag once_;"));
  for (const Source& source : sources()) {
    if (source.path == "common/base/mutex.h") continue;
    INFO(source.path << ": use Mutex, MutexLock and ConditionVariable of common/base/mutex.h");
    CHECK_FALSE(wrong(source.text));
  }
}

/// Constants and types in the unnamed namespaces of a file, at its left edge.
std::set<std::string> names_of_its_own(const std::string& text) {
  static const std::regex named(
      "^(?:(?:inline )?const(?:expr|init)? .*?\\b(k[A-Z]\\w*)\\b *[\\[={(;]|"
      "(?:struct|class|enum class) (\\w+))");
  std::set<std::string> out;
  std::istringstream lines(text);
  bool unnamed = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "namespace {") unnamed = true;
    if (line == "}  // namespace") unnamed = false;
    std::smatch found;
    if (unnamed && std::regex_search(line, found, named))
      out.insert(found[1].matched ? found[1].str() : found[2].str());
  }
  return out;
}

TEST_CASE("house rules: files of a room can be compiled together", "[house]") {
  CHECK(names_of_its_own("namespace {\nconstexpr int kA = 1;\nstruct B {\n}  // namespace\n"
                         "struct C;\n") == std::set<std::string>{"kA", "B"});
  std::map<std::string, std::string> owner;  // folder/room/name: file
  for (const Source& source : sources()) {
    if (source.path.find(".cc") == std::string::npos) continue;
    for (const std::string& name : names_of_its_own(source.text)) {
      const auto [found, is_new] = owner.emplace(
          folder_of(source.path) + "/" + room_of(source.path) + "/" + name, source.path);
      INFO(name << " is in " << found->second << " and in " << source.path
                << ": one batch of the build may have both (cmake/CompileOptions.cmake)");
      CHECK(is_new);
    }
  }
  CHECK(owner.size() > 100);
}

TEST_CASE("house rules: each unit test file has a namespace of its name", "[house]") {
  std::size_t checked = 0;
  const fs::path folder = fs::path(TARN_SOURCE_DIR) / "tests" / "unit";
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().stem().string();
    if (entry.path().extension() != ".cc" || !file.ends_with("_test")) continue;
    INFO(file << ".cc: several of them are compiled as one (cmake/CompileOptions.cmake)");
    std::ostringstream read;
    read << std::ifstream(entry.path()).rdbuf();
    const std::string text = read.str();
    CHECK(text.find("\nnamespace " + file + " {\n") != std::string::npos);
    CHECK(text.find("\nnamespace {\n") == std::string::npos);
    ++checked;
  }
  CHECK(checked > 90);
}

/// A sentence of a comment.
struct Sentence {
  std::size_t line = 0;
  bool begins = false;  ///< true for the first one of a comment
  std::vector<std::string> words;

  [[nodiscard]] std::string text() const {
    std::string out;
    for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
    return out;
  }
};

/// Position of the comment in a line, of whose strings nothing counts; npos when it has none.
std::size_t comment_at(const std::string& line) {
  bool in_string = false;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (in_string && line[i] == '\\')
      ++i;
    else if (line[i] == '"')
      in_string = !in_string;
    else if (!in_string && line.compare(i, 2, "//") == 0 && (i == 0 || line[i - 1] != ':'))
      return i;
  }
  return std::string::npos;
}

/// Sentences of all comments. One goes on over lines that hold nothing but a comment. Rows of
/// tables, which are indented, are none. A comment goes on in the next line at the same column.
std::vector<Sentence> sentences_of(const std::string& text) {
  std::vector<Sentence> out;
  bool goes_on = false;
  std::size_t number = 0;
  std::size_t column = std::string::npos;  // of the comment in the line before
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto at = comment_at(line);
    const bool alone = at != std::string::npos && line.find_first_not_of(' ') == at;
    if (!alone) goes_on = false;
    bool begins = at != column;
    column = at;
    if (at == std::string::npos) continue;
    const auto first = line.find_first_not_of("/<", at);
    const bool is_row = first != std::string::npos && line.compare(first, 3, "   ") == 0;
    std::istringstream words(first == std::string::npos || is_row ? "" : line.substr(first));
    std::size_t count = 0;
    for (std::string word; words >> word; ++count) {
      if (!goes_on) out.push_back({number, begins, {}});
      begins = false;
      out.back().words.push_back(word);
      goes_on = std::string(".:;?!").find(word.back()) == std::string::npos;
    }
    if (count == 0) column = std::string::npos;
    if (count == 0 || !alone) goes_on = false;
  }
  return out;
}

/// Returns the reason why a sentence of a comment is hard to read; "" if it is not.
std::string objection_to(const Sentence& sentence) {
  static const std::regex start("(What|Who|Whoever|Whose|That|Whether)\\b");
  static const std::regex word(
      "\\b(somebody|nobody|whoever|anybody|everybody|no more|in the place of|in its "
      "place|bears)\\b",
      std::regex::icase);
  constexpr std::size_t kMost = 25;
  const std::string text = sentence.text();
  if (std::regex_search(text, start, std::regex_constants::match_continuous))
    return "it begins neither with a noun, nor with a verb, nor with 'True if'";
  std::smatch found;
  if (std::regex_search(text, found, word)) return "'" + found.str() + "' is a word to avoid";
  if (sentence.words.size() > kMost && text.find('{') == std::string::npos)
    return "it has more than 25 words";
  return "";
}

/// Returns the reason as objection_to() does, for comments of programs. They keep stricter rules
/// than those of tests. Text within backticks is code, and "gives up" is no answer.
std::string objection_in_program(const Sentence& sentence) {
  static const std::regex start(
      "(what|who|whose|that|whether|how|when|where|why|which|until|nothing|those|it)\\b(?!=)",
      std::regex::icase);
  static const std::regex word(
      "\\b(someone|whomever|others|behind|past sets?|gives(?! up\\b)|tells|says)\\b",
      std::regex::icase);
  static const std::regex code("`[^`]*`");
  if (const std::string why = objection_to(sentence); !why.empty()) return why;
  const std::string text = std::regex_replace(sentence.text(), code, "``");
  if (sentence.begins && std::regex_search(text, start, std::regex_constants::match_continuous))
    return "a comment begins neither with a noun, nor with a verb, nor with 'True if'";
  std::smatch found;
  if (std::regex_search(text, found, word)) return "'" + found.str() + "' is a word to avoid";
  return "";
}

/// Texts of string literals with a space in them: messages, log lines, help. Literals that follow
/// each other are one; raw ones are left out.
std::vector<std::string> messages_in(std::string_view code) {
  std::vector<std::string> out;
  const auto skip_to = [&](std::size_t from, std::string_view what) {
    const std::size_t at = code.find(what, from);
    return at == std::string_view::npos ? code.size() : at + what.size();
  };
  for (std::size_t at = 0; at < code.size();) {
    const std::string_view rest = code.substr(at);
    if (rest.starts_with("//") || rest.starts_with("#include")) {
      at = skip_to(at, "\n");
    } else if (rest.starts_with("'\"'") || rest.starts_with("'\\\"'")) {
      at = skip_to(at + 1, "\"'");
    } else if (rest.starts_with("R\"")) {
      const std::string_view mark = rest.substr(2, rest.find('(') - 2);
      at = skip_to(at, ")" + std::string(mark) + "\"");
    } else if (rest.front() != '"') {
      ++at;
    } else {
      std::string text;
      while (at < code.size() && code[at] == '"') {
        for (++at; at < code.size() && code[at] != '"'; ++at) {
          if (code[at] == '\\') ++at;
          text += code[at];
        }
        const std::size_t next = code.find_first_not_of(" \n", at + 1);
        at = next != std::string_view::npos && code[next] == '"' ? next : at + 1;
      }
      if (text.find(' ') != std::string::npos) out.push_back(std::move(text));
    }
  }
  return out;
}

/// Returns the first word of a message that users of Tarn do not know, or that names no role.
std::string unknown_word_in(const std::string& message) {
  static const std::regex word(
      "\\b(somebody|nobody|whoever|anybody|everybody|no more|put aside|in the place of|pieces?|"
      "homes?|wish(es)?|vouch\\w*|bears|unsettled|outdated)\\b",
      std::regex::icase);
  std::smatch found;
  return std::regex_search(message, found, word) ? found.str() : "";
}

TEST_CASE("house rules: messages use words that their readers know", "[house]") {
  CHECK(messages_in("say(\"one \"\n    \"message\");  // \"not this\"\n") ==
        std::vector<std::string>{"one message"});
  CHECK(unknown_word_in("nobody takes piece {}") == "nobody");
  CHECK(unknown_word_in("piece {} is not here") == "piece");
  CHECK(unknown_word_in("slice {} is not here").empty());
  for (const Source& source : sources())
    for (const std::string& message : messages_in(source.text)) {
      INFO(source.path << ": " << message);
      CHECK(unknown_word_in(message).empty());
    }
}

TEST_CASE("house rules: a comment is understood when it is read once", "[house]") {
  const auto wrong = [](const std::string& text) {
    std::size_t count = 0;
    for (const Sentence& each : sentences_of(text)) count += objection_to(each).empty() ? 0 : 1;
    return count;
  };
  CHECK(wrong("/// What a look found.\nint a;  // Whether it was one\n") == 2);
  CHECK(wrong("/// Result of a look, which\n/// nobody waits for.\n") == 1);
  CHECK(wrong("/// Result. Whose? Nobody's.\n") == 2);
  CHECK(wrong("say(\"// What\");  // Reads what there is. True if there is nothing.\n") == 0);
  std::string longest = "//";
  for (int i = 0; i < 25; ++i) longest += " word";
  CHECK(wrong(longest + ".\n") == 0);
  CHECK(wrong(longest + "\n// more.\n") == 1);
  CHECK(wrong("/// A table:\n///   What    it is\n///   Who     he is\n") == 0);
  for (const Source& source : sources({"tests"}))
    for (const Sentence& sentence : sentences_of(source.text)) {
      INFO(source.path << ":" << sentence.line << ": " << sentence.text());
      CHECK(objection_to(sentence) == "");
    }
}

TEST_CASE("house rules: a comment of a program names roles and actions", "[house]") {
  const auto wrong = [](const std::string& text) {
    std::size_t count = 0;
    for (const Sentence& each : sentences_of(text))
      count += objection_in_program(each).empty() ? 0 : 1;
    return count;
  };
  // Begins of comments, alone and after code.
  for (const char* begin : {"How many", "When", "Where", "Why", "Which", "Until", "Nothing",
                            "Those", "It", "What", "Who", "Whose", "That", "Whether"}) {
    INFO(begin);
    CHECK(wrong(fmt::format("/// {} a drive has.\n", begin)) == 1);
  }
  CHECK(wrong("int a;  ///< why it failed\n") == 1);
  CHECK(wrong("int a;  ///< number of tries\n  /// Until when.\nint b;\n") == 1);
  CHECK(wrong("/// Number of tries.\n///\n/// It is small.\n") == 1);
  // Later sentences of one comment, lines of one sentence, and code.
  CHECK(wrong("/// Number of tries. When 0, none is made.\n/// It is small.\n") == 0);
  CHECK(wrong("int a;  ///< number of tries,\n        ///< until it ends\n") == 0);
  CHECK(wrong("/// what=status: the job of that id.\n") == 0);
  // Words.
  CHECK(wrong("/// Locks a name that someone else has.\n") == 1);
  CHECK(wrong("/// Sends it to whomever it belongs.\n") == 1);
  CHECK(wrong("/// Asks all others.\n") == 1);
  CHECK(wrong("/// The view may lag behind the store.\n") == 1);
  CHECK(wrong("/// Replicas in a past\n/// set.\n") == 1);
  CHECK(wrong("/// Targets of past sets.\n") == 1);
  CHECK(wrong("/// Gives the number of drives.\n") == 1);
  CHECK(wrong("/// The target tells its load.\n") == 1);
  CHECK(wrong("/// True if the record says so.\n") == 1);
  // Text that only looks like them.
  CHECK(wrong("/// The key in `BucketProps::others`. Waits for WriteBehind.\n") == 0);
  CHECK(wrong("/// others_confirmed: all of them have it.\n") == 0);
  CHECK(wrong("/// Stops when the client gives up.\n") == 0);
  CHECK(wrong("say(\"it says so\");  // with others: none\n") == 1);
  for (const Source& source : sources())
    for (const Sentence& sentence : sentences_of(source.text)) {
      INFO(source.path << ":" << sentence.line << ": " << sentence.text());
      CHECK(objection_in_program(sentence) == "");
    }
}

}  // namespace house_rules_test
