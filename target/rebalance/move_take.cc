// The receiver's side of a move: which offered names it lacks, and a copy that comes. The copy is
// stored in the order of a PUT (publish.cc); its generation stays, and under the name's lock it is
// looked at once more whether anything as new is there by now.

#include "target/rebalance/move_take.h"

#include <array>

#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/commit/recode.h"
#include "target/drive/block_writer.h"
#include "target/node/bodies.h"
#include "target/replica/away_drive.h"
#include "target/replica/copy_room.h"
#include "target/replica/move_copy.h"
#include "target/replica/move_format.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

/// The caller is the one of node authentication, never one that a header names.
cluster::CopySender sender_of(const http::Request& request, std::uint64_t map_version) {
  const auto proof = request.head().field(security::NodeAuth::kHeader);
  return {std::string(security::NodeAuth::node_of(proof)), map_version};
}

/// The bucket by its number, at a state that is at least as new as the sender's.
Task<Result<ObjectRequest>> find_bucket(TargetNode& node, BucketId bucket,
                                        std::uint64_t bmd_version) {
  ObjectRequest out;
  CO_TRY(out.state, co_await node.view.at_least(0, bmd_version));
  const auto* record = out.state->bmd.find(bucket);
  if (record == nullptr)
    co_return fail(Errc::bucket_not_found, "bucket {} does not exist (any more)", raw(bucket));
  out.bucket = *record;
  out.name.bucket = bucket;
  co_return out;
}

std::optional<io::ObjectRecord> newest_of(const std::vector<Located>& present) {
  if (present.empty()) return std::nullopt;
  return present.front().record;
}

/// True if a copy replaces what is here. `anew`: we have asked for it.
bool takes(const std::vector<Located>& present, Generation offered, bool anew) {
  const auto newest = newest_of(present);
  return wants(newest, offered) || (anew && newest->generation == offered);
}

/// True if a copy of this generation is wanted; if false, what is here is durable: the sender is
/// going to delete its own.
Task<Result<bool>> is_wanted(TargetNode& node, ObjectName name, Generation offered, bool anew) {
  CO_TRY(const auto present, co_await find_here(node, std::move(name)));
  if (takes(present, offered, anew)) co_return true;
  CO_TRY_OK(co_await present.front().drive->make_durable(present.front().record));
  co_return false;
}

/// A number in the query.
Result<std::uint64_t> move_take_number_in(const http::Request& request, const char* key) {
  const auto value = parse_u64(request.query().get(key));
  if (!value) return fail(Errc::invalid_argument, "{}= is missing or no number", key);
  return *value;
}

/// Fills `into`.
Task<Status> read_exactly(http::Exchange& exchange, std::span<std::byte> into) {
  while (!into.empty()) {
    CO_TRY(const std::size_t got, co_await exchange.read_some(into));
    if (got == 0)
      co_return fail(Errc::invalid_argument, "the copy is shorter than its record says");
    into = into.subspan(got);
  }
  co_return Status();
}

Task<Result<io::ObjectAttribute>> read_attribute_of(http::Exchange& exchange) {
  constexpr std::uint32_t kBytesMax = 64U << 10U;
  std::array<char, 4> length{};
  CO_TRY_OK(co_await read_exactly(exchange, std::as_writable_bytes(std::span(length))));
  const std::uint32_t bytes = from_little_endian(length);
  if (bytes > kBytesMax) co_return fail(Errc::invalid_argument, "an attribute of {} bytes", bytes);
  std::string text(bytes, '\0');
  CO_TRY_OK(co_await read_exactly(exchange, std::as_writable_bytes(std::span(text))));
  auto attribute = io::decode_attribute(text);
  if (!attribute)
    co_return fail(Errc::checksum_mismatch, "the record of the copy: {}",
                   attribute.error().message);
  if (attribute->record.kind == io::ObjectRecord::Kind::slice)
    co_return fail(Errc::invalid_argument, "a slice does not travel as a copy");
  co_return attribute;
}

/// Streams the blocks into `file`, each compared with the checksum that goes before it, all of them
/// with the record; of a coded object there are none.
Task<Status> receive_blocks(http::Exchange& exchange, const io::ObjectRecord& record,
                            WorkFile& file, Digests& digests) {
  CO_TRY_OK(check_memory());
  std::uint64_t left = record.file_bytes();
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives write_chunks()
  const auto next = [&](std::span<std::byte> into) -> Task<Result<std::size_t>> {
    if (left == 0) co_return std::size_t{0};
    std::array<char, 4> checksum{};
    CO_TRY_OK(co_await read_exactly(exchange, std::as_writable_bytes(std::span(checksum))));
    const auto block = into.first(std::min(kBlockBytes, left));
    CO_TRY_OK(co_await read_exactly(exchange, block));
    if (crc32c(block) != from_little_endian(checksum))
      co_return fail(Errc::checksum_mismatch, "a block of the copy does not match its checksum");
    left -= block.size();
    co_return block.size();
  };
  CO_TRY_OK(co_await write_chunks(file, digests, next));
  TARN_CHECK(left == 0 && digests.size() == record.file_bytes());
  if (!record.coding && digests.xxh64() != record.xxh64)
    co_return fail(Errc::checksum_mismatch, "the copy does not match the object's checksum");
  co_return Status();
}

Task<Status> expect_end(http::Exchange& exchange) {
  std::array<std::byte, 1> more{};
  CO_TRY(const std::size_t got, co_await exchange.read_some(more));
  if (got == 0) co_return Status();
  co_return fail(Errc::invalid_argument, "the copy is longer than its record says");
}

/// Ok: a copy from `sender` is taken by the map that is known now.
Status accepts(const TargetNode& node, const ObjectName& name, const cluster::CopySender& sender) {
  return node.moves.accepts(name.uname, replica_count_of(node, name.bucket), sender);
}

/// Publishes what came under the name's lock, unless something as new is there: then false.
/// `file`: null for a tombstone.
Task<Result<bool>> store_copy(TargetNode& node, ObjectName name, const cluster::CopySender& sender,
                              io::ObjectAttribute attribute, WorkFile* file, const Digests& digests,
                              bool anew) {
  TARN_CHECK((file != nullptr) == (attribute.record.kind == io::ObjectRecord::Kind::object));
  const auto held = co_await node.store.locks().acquire(name.key());
  CO_TRY_OK(accepts(node, name, sender));
  const auto on_its_way =
      node.owned.begin_copy(name.uname, replica_count_of(node, name.bucket), sender);
  if (!on_its_way)
    co_return fail(Errc::conflict, "t[{}] does not take a copy of {} by map {} any more", node.id,
                   name.uname, sender.map_version);
  if (node.view.state()->bmd.find(name.bucket) == nullptr)
    co_return fail(Errc::bucket_not_found, "bucket {} does not exist any more", raw(name.bucket));
  name = as_of_now(node, std::move(name));
  CO_TRY(auto present, co_await find_here(node, name));
  if (!takes(present, attribute.record.generation, anew)) {
    CO_TRY_OK(co_await present.front().drive->make_durable(present.front().record));
    co_return false;
  }
  if (!pending_by(attribute.record).empty())
    node.pending.add(name.bucket, name.object, std::chrono::steady_clock::now());
  if (file == nullptr) {
    CO_TRY_OK(co_await remove_here(node, name, std::move(present), attribute.record));
  } else {
    // Its owner is the target that keeps it as its bucket wants it.
    const auto state = node.view.state();
    const auto* bucket = state->bmd.find(name.bucket);
    if (bucket != nullptr && is_kept_otherwise(bucket->props, attribute.record))
      node.repair_requests.add(name.bucket, name.object);
    attribute.record.file = file->name();
    CO_TRY_OK(co_await node.store.publish(name, *file, std::move(attribute), digests.blocks(),
                                          std::move(present), cluster::Durability::full));
  }
  co_return true;
}

Task<Status> respond_stored(http::Request& request, bool stored) {
  http::Response done(200, http::kJson, nlohmann::json{{"stored", stored}}.dump());
  co_return co_await request.exchange.respond(std::move(done));
}

}  // namespace

Task<Status> answer_offer(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(Offer::kBytesMax));
  CO_TRY(const Offer offer, decode_offer(body));
  const auto sender = sender_of(request, offer.map_version);
  CO_TRY(const ObjectRequest bucket, co_await find_bucket(node, offer.bucket, offer.bmd_version));
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < offer.names.size(); ++i) {
    ObjectName name = name_in(bucket.bucket, offer.names[i].name);
    CO_TRY_OK(accepts(node, name, sender));
    CO_TRY(const bool lacks,
           co_await is_wanted(node, std::move(name), offer.names[i].generation, false));
    if (lacks) wanted.push_back(i);
  }
  co_return co_await request.exchange.respond(
      http::Response(200, http::kJson, encode_wanted(wanted)));
}

Task<Status> take_copy(TargetNode& node, http::Request& request) {
  CO_TRY(const std::uint64_t map_version, move_take_number_in(request, "map"));
  CO_TRY(const std::uint64_t bmd_version, move_take_number_in(request, "bmd"));
  const auto sender = sender_of(request, map_version);
  CO_TRY(io::ObjectAttribute attribute, co_await read_attribute_of(request.exchange));
  CO_TRY(const ObjectRequest bucket, co_await find_bucket(node, attribute.bucket_id, bmd_version));
  CO_TRY_OK(api::check_object_name(attribute.name));
  mark_complete(attribute.record);
  const bool anew = request.query().get("anew") == "1";
  if (request.query().get("unsettled") == "1") mark_pending(attribute.record, sender.id);
  const ObjectName name = name_in(bucket.bucket, attribute.name);
  CO_TRY_OK(accepts(node, name, sender));
  const bool is_write = !pending_by(attribute.record).empty();
  if (const Status kept = keeps_up(node, name); is_write && !kept)
    co_return co_await request.exchange.respond(drive_lags(kept.error()));
  CO_TRY_OK(takes_writes(node, name));
  // Before the bytes travel: something newer may have come since the offer.
  CO_TRY(const bool wanted, co_await is_wanted(node, name, attribute.record.generation, anew));
  if (!wanted) co_return co_await respond_stored(request, false);
  Digests digests;
  std::unique_ptr<WorkFile> file;
  if (attribute.record.kind == io::ObjectRecord::Kind::object) {
    CO_TRY(file, co_await create_here(node, name, attribute.record.file_bytes()));
    // With `anew` a request may wait for it (fetch_to_owner.h).
    if (!is_write && !anew) file->write_in_background();
    CO_TRY_OK(co_await receive_blocks(request.exchange, attribute.record, *file, digests));
  }
  CO_TRY_OK(co_await expect_end(request.exchange));
  CO_FAIL_POINT("move.received");
  CO_TRY(const bool stored,
         co_await store_copy(node, name, sender, std::move(attribute), file.get(), digests, anew));
  CO_FAIL_POINT("move.before_reply");
  obs::log("target").debug("copy taken req={} from={} object={} stored={}",
                           request.exchange.request_id(), sender.id,
                           bucket.bucket.name.display() + "/" + name.object, stored);
  co_return co_await respond_stored(request, stored);
}

}  // namespace tarn::target
