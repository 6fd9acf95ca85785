#include "target/drive/cluster_history.h"

#include "common/cluster/state/cluster_file.h"

namespace tarn::target {

Status check_history(io::FileSystem& files, const cluster::ClusterState& state) {
  const auto text = files.read_file(".tarn/cluster.json");
  if (!text) return {};
  const auto seen = cluster::decode_cluster_file(*text);
  if (!seen) return {};
  const Status known = cluster::check_not_older(*seen, state);
  if (!known) return fail(known.error().code, "drive {}: {}", files.root(), known.error().message);
  return {};
}

}  // namespace tarn::target
