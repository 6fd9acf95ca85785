#include "target/replica/recommit.h"

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/block_writer.h"
#include "target/replica/away_drive.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

/// The same content under a new generation: what is to be published.
struct Again {
  io::ObjectAttribute attribute;
  std::unique_ptr<WorkFile> file;  ///< null: a tombstone
  std::vector<std::uint32_t> blocks;
};

Task<Result<Again>> make_again(TargetNode& node, const ObjectRequest& wanted, const Located& from,
                               Generation generation, const io::Coding* coding) {
  Again out;
  out.attribute = {wanted.name.bucket, wanted.bucket.placed_as(), wanted.name.object, from.record};
  io::ObjectRecord& record = out.attribute.record;
  TARN_CHECK(from.record.generation < generation);
  mark_complete(record);
  record.generation = generation;
  if (coding != nullptr) record.coding = *coding;
  if (record.kind == io::ObjectRecord::Kind::tombstone) co_return out;
  CO_TRY(out.file, co_await create_here(node, wanted.name, record.file_bytes()));
  record.file = out.file->name();
  if (record.coding) co_return out;
  CO_TRY(const auto object,
         co_await from.drive->open_object(wanted.name.bucket, wanted.name.object));
  if (!object || object->record().generation != from.record.generation)
    co_return fail(Errc::unavailable, "object {} is being changed", wanted.name.object);
  Digests digests;
  CO_TRY_OK(co_await copy_file(*object, *out.file, digests));
  TARN_CHECK(digests.size() == record.file_bytes());
  if (digests.xxh64() != record.xxh64)
    co_return fail(Errc::corrupt, "{} does not match its checksum", wanted.display());
  out.blocks = digests.blocks();
  co_return out;
}

}  // namespace

Result<Generation> generation_above(TargetNode& node, const ObjectRequest& wanted,
                                    const OwnedNames::Write& write,
                                    const io::ObjectRecord& newest) {
  const auto map_version = write.commit();
  if (!map_version) return fail(Errc::unavailable, "this target has no lease now");
  const Generation generation = node.next_generation(*map_version);
  if (newest.generation < generation) return generation;
  return fail(Errc::unavailable,
              "object {} has a generation from the future: the meta store is older than the data",
              wanted.name.object);
}

Task<Status> recommit(TargetNode& node, const ObjectRequest& wanted, const OwnedNames::Write& write,
                      std::vector<Located> present, Generation generation,
                      const io::Coding* coding) {
  CO_TRY(Again again, co_await make_again(node, wanted, present.front(), generation, coding));
  const VersionInFlight outbound{again.attribute, again.file.get(), &again.blocks, nullptr};
  CO_TRY([[maybe_unused]] const bool all,
         co_await replicate(node, wanted.name, write, cluster::Durability::full, outbound));
  CO_FAIL_POINT("coded.before_own_again");
  if (again.file == nullptr) {
    CO_TRY_OK(co_await remove_here(node, wanted.name, std::move(present), again.attribute.record));
  } else {
    CO_TRY_OK(co_await node.store.publish(wanted.name, *again.file, std::move(again.attribute),
                                          std::move(again.blocks), std::move(present),
                                          cluster::Durability::full));
  }
  obs::log("copies").debug("version committed again object={}", wanted.name.object);
  co_await confirm_replicas(node, wanted.name, generation);
  co_return Status();
}

}  // namespace tarn::target
