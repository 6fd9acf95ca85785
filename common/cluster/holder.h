#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tarn::cluster {

/// The process that holds the lease of a node, as live/<id> has it: one identity runs once. A
/// second process with the same one, from a copy of the first one's directory, is refused while the
/// lease holds; a start behind a kill -9 need not wait for its end, since that process is known to
/// be gone.
struct Holder {
  std::string id;    ///< random, of this start
  std::string host;  ///< for people
  std::int64_t pid = 0;
  std::string started;  ///< of the process, as /proc/<pid>/stat has it: a pid may be used again
  std::string machine;  ///< where its pid means something: boot id and namespace of pids; or "-"

  bool operator==(const Holder&) const = default;
};
/// As LiveRecord has it, in one line; its id comes first, up to a blank.
[[nodiscard]] std::string encode(const Holder& holder);
/// Nothing: the text is not of this version.
[[nodiscard]] std::optional<Holder> parse_holder(std::string_view text);

/// This process, with an id of its own each time.
[[nodiscard]] Holder new_holder();

enum class HolderState : std::uint8_t {
  gone,     ///< no such process on this machine any more, or it is this one
  runs,     ///< on this machine
  unknown,  ///< on another one, or in another container
};
/// Looks into /proc.
[[nodiscard]] HolderState look_at(const Holder& holder);

/// "process 4711 on node7.example"
[[nodiscard]] std::string display(const Holder& holder);

}  // namespace tarn::cluster
