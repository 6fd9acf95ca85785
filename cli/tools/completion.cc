#include "cli/tools/completion.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace tarn::cli {
namespace {

/// Kinds of names that a command takes, besides options: f files, o objects, b buckets.
struct Kind {
  std::string_view path;
  std::string_view words;
};
constexpr std::array<Kind, 14> kKinds{{{"put", "fo"},
                                       {"get", "of"},
                                       {"cat", "o"},
                                       {"rm", "o"},
                                       {"stat", "o"},
                                       {"cp", "o"},
                                       {"ls", "o"},
                                       {"export", "f"},
                                       {"shards", "fo"},
                                       {"bench", "fo"},
                                       {"bucket cp", "b"},
                                       {"bucket mv", "b"},
                                       {"bucket rm", "b"},
                                       {"bucket show", "b"}}};

std::string_view kind_of(std::string_view path) {
  for (const Kind& kind : kKinds)
    if (kind.path == path) return kind.words;
  return "";
}

/// Parts that both shells' scripts are made of: the `case` that finds the command, and one that has
/// the words of each.
struct Parts {
  std::string steps;  ///< "':put'|':bucket'|'bucket:create'"
  std::string cases;
};

void completion_collect(const CommandTree& command, const std::string& path,
                        const std::vector<std::string>& global, Parts& parts) {
  std::string words;
  for (const CommandTree& below : command.commands) words += below.name + " ";
  if (path == "completion") words += "bash zsh ";
  for (const auto* options : {&command.options, &global})
    for (const std::string& option : *options) words += option + " ";
  if (!words.empty()) words.pop_back();
  parts.cases += fmt::format("    '{}') words='{}'; kind='{}' ;;\n", path, words, kind_of(path));
  for (const CommandTree& below : command.commands) {
    if (!parts.steps.empty()) parts.steps += "|";
    parts.steps += fmt::format("'{}:{}'", path, below.name);
    completion_collect(below, path.empty() ? below.name : path + " " + below.name, global, parts);
  }
}

Parts parts_of(const CommandTree& tarn) {
  Parts parts;
  CommandTree top = tarn;
  const auto global = top.options;
  top.options.clear();
  completion_collect(top, "", global, parts);
  return parts;
}

// Objects are asked for level by level, so a bucket of a million names answers as fast as a small
// one; a cluster that does not answer completes nothing.
constexpr std::string_view kObjects = R"(_tarn_objects() {
  local cur="$1" bucket name
  case "$cur" in
    */*)
      bucket="${cur%%/*}"
      tarn -q --retry-for 1s ls -n -d "$cur" 2>/dev/null | while IFS= read -r name; do
        printf '%s/%s\n' "$bucket" "$name"
      done ;;
    *)
      tarn -q --retry-for 1s ls 2>/dev/null | while IFS= read -r name; do
        case "$name" in "$cur"*) printf '%s%s\n' "$name" "$2" ;; esac
      done ;;
  esac
}
)";

}  // namespace

std::string bash_completion(const CommandTree& tarn) {
  const Parts parts = parts_of(tarn);
  return fmt::format(R"(# Completion of tarn and tarshards for bash: source <(tarn completion bash)
{}
_tarn() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" at="" words="" kind="" word i found
  case "$1" in *tarshards) at="shards" ;; esac
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    case "$at:$word" in
      {}) at="${{at:+$at }}$word" ;;
    esac
  done
  case "$at" in
{}  esac
  COMPREPLY=()
  if [[ "$cur" != -* && -n "$kind" ]]; then
    case "$kind" in *f*)
      while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -f -- "$cur") ;;
    esac
    case "$kind" in
      *o*) while IFS= read -r found; do COMPREPLY+=("$found"); done < <(_tarn_objects "$cur" /) ;;
      *b*) while IFS= read -r found; do COMPREPLY+=("$found"); done < <(_tarn_objects "$cur" "") ;;
    esac
    compopt -o nospace 2>/dev/null
  fi
  if [[ "$cur" == -* || -z "$kind" ]]; then
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -W "$words" -- "$cur")
  fi
}}
complete -F _tarn tarn tarshards
)",
                     kObjects, parts.steps, parts.cases);
}

std::string zsh_completion(const CommandTree& tarn) {
  const Parts parts = parts_of(tarn);
  return fmt::format(R"(#compdef tarn tarshards
# Completion of tarn and tarshards for zsh: in a directory of $fpath as _tarn, or source it.
{}
_tarn() {{
  local cur="${{words[CURRENT]}}" at="" list="" kind="" word i
  local -a found
  case "${{words[1]}}" in *tarshards) at="shards" ;; esac
  for ((i = 2; i < CURRENT; i++)); do
    word="${{words[i]}}"
    case "$at:$word" in
      {}) at="${{at:+$at }}$word" ;;
    esac
  done
  case "$at" in
{}  esac
  if [[ "$cur" == -* || -z "$kind" ]]; then
    compadd -- ${{=list}}
    return
  fi
  case "$kind" in
    *o*) found=("${{(@f)$(_tarn_objects "$cur" /)}}") ; compadd -S "" -- ${{found:#}} ;;
    *b*) found=("${{(@f)$(_tarn_objects "$cur" "")}}") ; compadd -- ${{found:#}} ;;
  esac
  case "$kind" in *f*) _files ;; esac
}}
if [[ "${{funcstack[1]}}" == _tarn ]]; then
  _tarn "$@"
else
  compdef _tarn tarn tarshards
fi
)",
                     kObjects, parts.steps, [&] {
                       // `words` is zsh's own.
                       std::string cases = parts.cases;
                       for (auto at = cases.find(") words="); at != std::string::npos;
                            at = cases.find(") words=", at + 1))
                         cases.replace(at, 8, ") list=");
                       return cases;
                     }());
}

}  // namespace tarn::cli
