#include "target/commit/recode.h"

#include <algorithm>
#include <cstring>

#include "common/api/coding_props.h"
#include "common/base/buffer_pool.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/coded/coded_write.h"
#include "target/coded/object_bytes.h"
#include "target/commit/incoming.h"
#include "target/node/bodies.h"
#include "target/replica/away_drive.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

Error does_not_match(const ObjectRequest& wanted) {
  return {Errc::corrupt, fmt::format("{} does not match its checksum", wanted.display())};
}

Task<Status> encode(TargetNode& node, const ObjectRequest& wanted, OpenObject& from,
                    CodedWrite& coded) {
  ObjectBytes bytes(node, wanted.name, from);
  const PooledBuffer buffer(PooledBuffer::kBlockBytes);
  while (true) {
    CO_TRY_OK(check_writer(node, wanted.name.uname));
    CO_TRY(const std::size_t got, co_await bytes.next(buffer.span()));
    if (got == 0) break;
    for (auto left = buffer.span().first(got); !left.empty();) {
      const auto room = coded.room();
      const std::size_t part = std::min(room.size(), left.size());
      std::memcpy(room.data(), left.data(), part);
      left = left.subspan(part);
      CO_TRY_OK(co_await coded.filled(part));
    }
  }
  co_return co_await coded.end();
}

Task<Result<io::ObjectRecord>> recode_store_coded(TargetNode& node, const ObjectRequest& wanted,
                                                  OpenObject& from) {
  const io::ObjectRecord before = from.record();
  CO_TRY_OK(check_memory());
  CO_TRY(const auto coded, co_await begin_coded(node, wanted, before.size));
  CO_TRY_OK(co_await encode(node, wanted, from, *coded));
  if (coded->xxh64() != before.xxh64) co_return fail(does_not_match(wanted));
  CO_TRY(const auto file, co_await create_here(node, wanted.name, 0));
  NewBytes bytes{*file, coded->size(), coded->xxh64()};
  bytes.coded = coded.get();
  bytes.same_as = &before;
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node, wanted.name.uname));
  co_return co_await commit_file(node, wanted, write, std::move(bytes), {}, nullptr);
}

Task<Result<io::ObjectRecord>> store_plain(TargetNode& node, const ObjectRequest& wanted,
                                           OpenObject& from) {
  const io::ObjectRecord before = from.record();
  CO_TRY(const auto file, co_await create_here(node, wanted.name, before.size));
  Digests digests;
  CO_TRY_OK(co_await copy_bytes(node, wanted.name, from, *file, digests));
  if (digests.xxh64() != before.xxh64) co_return fail(does_not_match(wanted));
  NewBytes bytes = new_bytes(*file, digests);
  bytes.same_as = &before;
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node, wanted.name.uname));
  co_return co_await commit_file(node, wanted, write, std::move(bytes), {}, nullptr);
}

/// No client waits: all slices, where they belong, or another time.
ObjectRequest patient(ObjectRequest wanted) {
  const auto coding = api::coding_of(wanted.bucket.props);
  wanted.bucket.props.durability = coding ? cluster::Durability::strict : cluster::Durability::full;
  return wanted;
}

}  // namespace

bool is_kept_otherwise(const api::BucketProps& props, const io::ObjectRecord& record) {
  if (record.kind != io::ObjectRecord::Kind::object || !api::was_ever_coded(props)) return false;
  const auto wanted = api::coding_of(props);
  if (!wanted || !wanted->is_coded(record.size)) return record.coding.has_value();
  return !record.coding || record.coding->k != wanted->k || record.coding->m != wanted->m ||
         (record.coding->layout == io::Coding::Layout::whole) != wanted->full_copy;
}

Task<Result<bool>> recode(TargetNode& node, ObjectName name) {
  // Several find the same object: one after the other, and all but the first have nothing to do.
  const auto alone = co_await node.store.locks().acquire("recode/" + name.key());
  CO_TRY(ObjectRequest request, request_of(node, name));
  const ObjectRequest wanted = patient(std::move(request));
  // Leaves the names of other targets unread. The write begins when all is copied: a handoff of the
  // name waits for it.
  CO_TRY_OK(co_await begin_write(node, name.uname));
  CO_TRY(const auto from, co_await open_newest(node, wanted));
  if (!from || !is_kept_otherwise(wanted.bucket.props, from->record())) co_return true;
  const std::uint64_t size = from->record().size;
  CO_FAIL_POINT("recode.before_read");
  const auto coding = api::coding_of(wanted.bucket.props);
  auto stored = coding && coding->is_coded(size) ? co_await recode_store_coded(node, wanted, *from)
                                                 : co_await store_plain(node, wanted, *from);
  if (!stored && stored.error().code == Errc::conflict) co_return false;
  CO_TRY_OK(stored);
  node.recoded.add(name.bucket, coding, size);
  co_await confirm_replicas(node, name, stored->generation);
  co_return true;
}

Task<Status> recode_patiently(TargetNode& node, ObjectName name) {
  const std::string object = name.object;
  const auto done = co_await recode(node, std::move(name));
  if (done && *done) co_return Status();
  if (done) co_return fail(Errc::conflict, "it is being written");
  // Another target has it to do when the name has another owner.
  obs::log("recode").log(
      done.error().code == Errc::cancelled ? spdlog::level::debug : spdlog::level::warn,
      "object not kept as its bucket wants it object={} err={}", object, done.error().message);
  co_return fail(done.error());
}

}  // namespace tarn::target
