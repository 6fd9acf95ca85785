#include "target/coded/put_tombstone.h"

#include "target/coded/former_slices.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"

namespace tarn::target {

Task<Result<Generation>> put_tombstone(TargetNode& node, const ObjectRequest& wanted,
                                       std::vector<Located> present, const OwnedNames::Write& write,
                                       api::CustomMetadata custom) {
  const auto map_version = write.commit();
  if (!map_version)
    co_return fail(Errc::unavailable, "this target has no lease now and takes no writes");
  io::ObjectRecord tombstone;
  tombstone.kind = io::ObjectRecord::Kind::tombstone;
  tombstone.generation = node.next_generation(*map_version);
  tombstone.modified_ns = node.clock.wall_time().count();
  tombstone.custom = std::move(custom);
  const ObjectName name = as_of_now(node, wanted.name);
  std::optional<io::Coding> former;
  if (!present.empty()) former = present.front().record.coding;
  if (replica_count_of(node, name.bucket).many()) {
    // Checks, before other replicas have the tombstone, that there is a place for it here.
    if (present.empty()) CO_TRY_OK(takes_writes(node, name));
    VersionInFlight outbound;
    outbound.attribute = {name.bucket, wanted.bucket.placed_as(), name.object, tombstone};
    CO_TRY_OK(co_await replicate(node, name, write, cluster::Durability::full, outbound));
  }
  CO_TRY_OK(co_await remove_here(node, name, std::move(present), tombstone));
  co_await confirm_replicas(node, name, tombstone.generation);
  if (former) drop_former(node, co_await asio::this_coro::executor, name, *former, tombstone);
  co_return tombstone.generation;
}

Task<Status> delete_present(TargetNode& node, const ObjectRequest& wanted,
                            std::vector<Located> present, const OwnedNames::Write& write) {
  CO_TRY([[maybe_unused]] const Generation generation,
         co_await put_tombstone(node, wanted, std::move(present), write, {}));
  co_return Status();
}

Task<Status> delete_version(TargetNode& node, const ObjectRequest& wanted, Generation version) {
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node, wanted.name.uname));
  const auto held = co_await node.store.locks().acquire(wanted.name.key());
  CO_TRY(Newest newest, co_await find_newest(node, wanted));
  if (!newest.exists() || newest.record->generation != version) co_return Status();
  co_return co_await delete_present(node, wanted, std::move(newest.here), write);
}

}  // namespace tarn::target
