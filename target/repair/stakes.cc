#include "target/repair/stakes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "common/api/mirror_props.h"
#include "common/api/rebuild_plan.h"
#include "target/node/rebuild_pace.h"
#include "target/repair/all_files.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::uint64_t kNewest = std::numeric_limits<std::uint64_t>::max();

/// Key by which stakes are summed.
struct Kind {
  std::uint32_t k = 1;
  std::uint32_t m = 0;
  std::uint32_t together = 1;
  auto operator<=>(const Kind&) const = default;
};
class Stakes {
 public:
  void add(const Kind& kind, std::uint64_t objects, std::uint64_t bytes) {
    auto& its = all_[kind];
    its.objects += objects;
    its.bytes += bytes;
  }
  [[nodiscard]] json list() const {
    json out = json::array();
    for (const auto& [kind, its] : all_)
      out.push_back(api::Stake{kind.k, kind.m, kind.together, its.objects, its.bytes});
    return out;
  }

 private:
  struct Sum {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };
  std::map<Kind, Sum> all_;
};

/// The slices of one set that lie on the target.
struct SetHere {
  std::uint32_t k = 0;
  std::uint32_t m = 0;
  std::uint32_t slices = 0;
  std::uint64_t bytes = 0;
};

/// Number of copies of a plain object: on drives of one target, and on nodes.
struct Copies {
  std::uint32_t drives = 1;
  std::uint32_t nodes = 1;
};
Copies copies_in(const cluster::BucketRecord& bucket, std::size_t targets) {
  Copies out;
  out.drives = std::max<std::uint32_t>(1, api::copies_of(bucket.props));
  if (bucket.replica_count().many())
    out.nodes = static_cast<std::uint32_t>(
        std::clamp<std::size_t>(bucket.replica_count().at(kNewest), 1, targets));
  return out;
}

class Count {
 public:
  /// On how many targets names may lie.
  explicit Count(std::size_t targets) : targets_(std::max<std::size_t>(1, targets)) {}

  void add(const std::string& drive, const cluster::BucketRecord& bucket,
           const io::ObjectRecord& record) {
    Stakes& on_drive = drives_[drive];
    if (record.slice) {
      const io::Slice& slice = *record.slice;
      on_drive.add({slice.k, slice.m, 1}, 1, slice.file_bytes);
      SetHere& set = sets_[slice.set];
      set.k = slice.k;
      set.m = slice.m;
      ++set.slices;
      set.bytes += slice.file_bytes;
      return;
    }
    if (record.coding) return;  // an empty file, of which there are m + 1
    const Copies copies = copies_in(bucket, targets_);
    on_drive.add({1, copies.drives * copies.nodes - 1, 1}, 1, record.size);
    // All copies on the drives of this target go with it: each of them stands for its part.
    parts_[{1, copies.drives * copies.nodes - 1, copies.drives}] += 1;
    bytes_[{1, copies.drives * copies.nodes - 1, copies.drives}] += record.size;
  }
  [[nodiscard]] json report() const {
    Stakes target;
    for (const auto& [id, set] : sets_) target.add({set.k, set.m, set.slices}, 1, set.bytes);
    for (const auto& [kind, files] : parts_)
      target.add(kind, (files + kind.together - 1) / kind.together, bytes_.at(kind));
    json drives = json::object();
    for (const auto& [path, its] : drives_) drives[path] = its.list();
    return {{"target", target.list()}, {"drives", std::move(drives)}};
  }

 private:
  const std::size_t targets_;
  std::map<std::string, Stakes> drives_;
  std::unordered_map<std::uint64_t, SetHere> sets_;
  std::map<Kind, std::uint64_t> parts_;  // files of plain objects
  std::map<Kind, std::uint64_t> bytes_;
};

}  // namespace

Task<Status> tell_stakes(TargetNode& node, http::Request& request) {
  Count count(node.view.state()->map.placeable_targets().size());
  for (const auto& drive : node.store.drives()) {
    if (!drive->in_service()) continue;
    CO_TRY_OK(co_await for_each_file(node, *drive, [&](const auto& bucket, const auto& record) {
      count.add(drive->path(), bucket, record);
    }));
  }
  json out = count.report();
  const RebuildBounds bounds = rebuild_bounds(rebuild_limits(node));
  out["ceiling"] = bounds.most;
  out["floor"] = bounds.least;
  co_return co_await request.exchange.respond(
      http::Response(200, http::kJson, out.dump(-1, ' ', false, json::error_handler_t::replace)));
}

}  // namespace tarn::target
