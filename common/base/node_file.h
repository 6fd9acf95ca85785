#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace tarn {

/// Description of a running node in `<dir>/node.json`, for scripts that start nodes on ports which
/// the nodes choose.
struct NodeFile {
  std::string id;
  std::string role;  ///< "proxy" or "target"
  std::string public_url;
  std::string relay_url;  ///< proxies only
  std::string internal_url;
  std::vector<std::string> drives;  ///< targets only, absolute

  /// One line of JSON, with the id of this process.
  [[nodiscard]] std::string text() const;
};

/// Replaces `<dir>/node.json` in one step, when all listeners are bound. Not synced: it describes a
/// process, and a power cut ends that too.
Status write_node_file(const std::filesystem::path& dir, const NodeFile& node);
/// Removes the file that an earlier start left; no error when there is none.
Status remove_node_file(const std::filesystem::path& dir);

/// The id of the node that lives in `dir`: read from `<dir>/<role>.id`, or made and synced at its
/// first start: 'p' or 't' and 8 letters and digits. corrupt when the file holds something else.
[[nodiscard]] Result<std::string> load_or_create_node_id(const std::filesystem::path& dir,
                                                         const std::string& role);

/// Orders of an operator to the node of this directory while it ran, in the file `name`, and their
/// replacement in one step, synced. No such file: an empty text.
[[nodiscard]] Result<std::string> load_node_text(const std::filesystem::path& dir,
                                                 const std::string& name);
Status save_node_text(const std::filesystem::path& dir, const std::string& name,
                      const std::string& text);

/// The uuid of the cluster that the node of this directory belongs to, in `cluster.uuid`, written
/// once it has joined; empty when it has not.
[[nodiscard]] std::string known_cluster(const std::filesystem::path& dir);
Status remember_cluster(const std::filesystem::path& dir, const std::string& uuid);
/// Forgets the cluster, which is gone as an operator wanted: the node may begin with another one.
Status forget_cluster(const std::filesystem::path& dir);

}  // namespace tarn
