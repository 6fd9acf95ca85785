// Common part of faultdisk and faultfs: rules that say which operations fail and how often, and the
// running of a FUSE file system beside a control socket.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control.h"
#include <fuse.h>

/// One rule: `ACTION OP [NAME] [option...]`. It is used `count` times after it has let `skip`
/// operations pass.
struct Rule {
  std::string action;
  std::string op;
  std::string name;        ///< a part of a path; faultfs only
  std::int64_t count = 1;  ///< uses left; below zero: always
  std::int64_t skip = 0;
  std::uint64_t from = 0;  ///< bytes [from, to) of a disk
  std::uint64_t to = UINT64_MAX;
  std::string match;  ///< bytes that a write must have in it
  int ms = 0;         ///< of a delay
};

/// The rules of a tool, the first that matches counting. Not thread-safe: the tool has its own
/// mutex.
class Rules {
 public:
  /// Reads a rule after its verb, and answers the control socket.
  std::string add(std::istringstream& words, bool with_name) {
    Rule rule;
    words >> rule.action >> rule.op;
    if (with_name) {
      words >> rule.name;
    }
    std::string option;
    while (words >> option) {
      if (!set(rule, option)) {
        return "error unknown option " + option;
      }
    }
    rules_.push_back(std::move(rule));
    return "ok";
  }

  /// The rule for an operation that `matches` (a rule's own conditions) says yes to, used and
  /// counted; null: none.
  template <class Matches>
  const Rule* use(std::string_view op, const Matches& matches) {
    for (auto& rule : rules_) {
      if (rule.count == 0 || (rule.op != "any" && rule.op != op) || !matches(rule)) {
        continue;
      }
      if (rule.skip > 0) {
        --rule.skip;
        continue;
      }
      if (rule.count > 0) {
        --rule.count;
      }
      counters.add(rule.action + "." + std::string(op));
      return &rule;
    }
    return nullptr;
  }

  void clear() { rules_.clear(); }

  Counters counters;

 private:
  static bool set(Rule& rule, const std::string& option) {
    const auto equals = option.find('=');
    const auto key = option.substr(0, equals);
    const auto value = equals == std::string::npos ? "" : option.substr(equals + 1);
    if (key == "always") {
      rule.count = -1;
    } else if (key == "count") {
      rule.count = std::atoll(value.c_str());
    } else if (key == "skip") {
      rule.skip = std::atoll(value.c_str());
    } else if (key == "from") {
      rule.from = std::strtoull(value.c_str(), nullptr, 10);
    } else if (key == "to") {
      rule.to = std::strtoull(value.c_str(), nullptr, 10);
    } else if (key == "ms") {
      rule.ms = std::atoi(value.c_str());
    } else if (key == "match") {
      for (std::size_t i = 0; i + 1 < value.size(); i += 2) {
        rule.match.push_back(static_cast<char>(std::stoi(value.substr(i, 2), nullptr, 16)));
      }
    } else {
      return false;
    }
    return true;
  }

  std::vector<Rule> rules_;
};

/// Mounts and serves until SIGTERM; `control` answers meanwhile, `at_end` runs when no operation
/// can come any more. An exit code.
template <class AtEnd>
int serve_fuse(std::vector<std::string> words, const char* mountpoint, const fuse_operations& ops,
               ControlSocket& control, const AtEnd& at_end) {
  std::vector<char*> pointers;
  pointers.reserve(words.size());
  for (auto& word : words) {
    pointers.push_back(word.data());
  }
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(pointers.size()), pointers.data());
  fuse* handle = fuse_new(&args, &ops, sizeof ops, nullptr);
  if (handle == nullptr || fuse_mount(handle, mountpoint) != 0) {
    return 1;
  }
  fuse_set_signal_handlers(fuse_get_session(handle));

  control.start();
  fuse_loop_config config{};
  config.max_idle_threads = 10;
  fuse_loop_mt(handle, &config);

  at_end();
  fuse_remove_signal_handlers(fuse_get_session(handle));
  fuse_unmount(handle);
  fuse_destroy(handle);
  return 0;
}
