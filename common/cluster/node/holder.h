#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tarn::cluster {

/// The process that holds the lease of a node, as recorded in live/<id>. A second process with the
/// same node id (from a copy of the directory) is refused while the lease is valid. A restart after
/// kill -9 need not wait for the end of the lease: the old process is known to be gone.
struct Holder {
  std::string id;    ///< random, of this start
  std::string host;  ///< for people
  std::int64_t pid = 0;
  std::string started;  ///< of the process, as /proc/<pid>/stat has it: a pid may be used again
  std::string machine;  ///< boot id and pid namespace, in which `pid` is valid; or "-"

  bool operator==(const Holder&) const = default;
};
/// One line, as LiveRecord stores it. The id is the first word.
[[nodiscard]] std::string encode(const Holder& holder);
/// The holder; none if the text has another format.
[[nodiscard]] std::optional<Holder> parse_holder(std::string_view text);

/// Describes this process. Each call returns a new id.
[[nodiscard]] Holder new_holder();

enum class HolderState : std::uint8_t {
  gone,     ///< no such process is left on this machine, or it is this one
  runs,     ///< on this machine
  unknown,  ///< on another one, or in another container
};
/// Reads /proc. Does not block.
[[nodiscard]] HolderState look_at(const Holder& holder);

/// "process 4711 on node7.example"
[[nodiscard]] std::string display(const Holder& holder);

}  // namespace tarn::cluster
