#include "target/upstream/inventory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/api/inventory.h"
#include "common/api/list_fields.h"
#include "common/api/list_page.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "target/commit/incoming.h"
#include "target/drive/block_reader.h"
#include "target/drive/block_writer.h"
#include "target/job/copy_named.h"
#include "target/node/job_stream.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::string_view kInventoryMagic = "tarninv1";
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kTrailerBytes = kInventoryMagic.size() + kLengthBytes;
constexpr std::size_t kInventoryOrderMax = 64U << 10U;
constexpr std::size_t kIndexBytesMax = 256U << 20U;
constexpr std::uint64_t kUpstreamNamesAtOnce = 1000;

/// Order to make an inventory.
struct Order {
  std::string job;
  BucketId bucket{};
  BucketId store{};
  api::InventoryInfo info;
  std::uint64_t names_of_chunk = 0;
};

Result<Order> inventory_order_in(const std::string& body) {
  return read_json(Errc::invalid_argument, "order of an inventory", [&]() -> Result<Order> {
    const json in = json::parse(body);
    Order out;
    out.job = in.at("job");
    out.bucket = BucketId{in.at("bucket").get<std::uint64_t>()};
    out.store = BucketId{in.at("store").get<std::uint64_t>()};
    out.info = in.at("info").get<api::InventoryInfo>();
    out.names_of_chunk = std::max(in.at("names_of_chunk").get<std::uint64_t>(), std::uint64_t{1});
    return out;
  });
}

/// Makes one inventory. All of it runs on the loop of its request.
class InventoryRun {
 public:
  InventoryRun(TargetNode& node, Upstream& upstream, Order order,
               const asio::any_io_executor& executor)
      : node_(node),
        upstream_(upstream),
        order_(std::move(order)),
        lines_(executor, [this] { return json(progress_).dump(); }),
        stop_(lines_.stop().get_token()) {}

  [[nodiscard]] JobLines& lines() { return lines_; }
  Task<Status> run();

 private:
  Task<Status> make();
  Task<Result<std::size_t>> next(std::span<std::byte> room);
  Task<Status> list_more();
  void end_chunk();
  void end_file();

  TargetNode& node_;
  Upstream& upstream_;
  Order order_;
  api::CopyProgress progress_;
  JobLines lines_;
  std::stop_token stop_;

  std::string made_;  // bytes of the file that are not written yet
  std::size_t taken_ = 0;
  std::uint64_t offset_ = 0;  // in the file, of what follows `made_`
  bool all_made_ = false;

  cluster::BucketRecord source_;
  std::string after_;
  api::PagePacker chunk_;
  std::string first_of_chunk_;
  json chunks_ = json::array();
};

Task<Status> InventoryRun::run() {
  const Status made = co_await make();
  if (!made) {
    progress_.error = made.error().message;
    const Errc code = made.error().code;
    progress_.again = code == Errc::unavailable || code == Errc::timeout || code == Errc::cancelled;
  }
  progress_.done = true;
  lines_.end();
  obs::log("target").info("inventory ended job={} object={} names={} bytes={} err={}", order_.job,
                          order_.info.object, order_.info.names, progress_.bytes, progress_.error);
  co_return Status();
}

Task<Status> InventoryRun::make() {
  const auto state = node_.view.state();
  const auto* bucket = state->bmd.find(order_.bucket);
  if (bucket == nullptr) co_return fail(Errc::bucket_not_found, "the bucket is gone");
  source_ = *bucket;
  CO_TRY(const ObjectRequest wanted, co_await find_own(node_, order_.store, order_.info.object));
  CO_TRY(const auto file, co_await create_here(node_, wanted.name, std::nullopt));
  order_.info.started_ns = node_.clock.wall_time().count();
  order_.info.map_version = state->map.version;
  order_.info.targets = state->map.placeable_targets().size();
  Digests digests;
  const auto bytes = [this](std::span<std::byte> room) { return next(room); };
  CO_TRY_OK(co_await write_chunks(*file, digests, bytes));
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node_, wanted.name.uname));
  CO_TRY_OK(co_await commit_file(node_, wanted, write, new_bytes(*file, digests), {}, nullptr));
  co_return check_lease_before_reply(write);
}

Task<Result<std::size_t>> InventoryRun::next(std::span<std::byte> room) {
  while (made_.size() - taken_ < room.size() && !all_made_) CO_TRY_OK(co_await list_more());
  const std::size_t count = std::min(room.size(), made_.size() - taken_);
  std::memcpy(room.data(), made_.data() + taken_, count);
  taken_ += count;
  if (taken_ == made_.size()) {
    made_.clear();
    taken_ = 0;
  }
  progress_.bytes += count;
  co_return count;
}

Task<Status> InventoryRun::list_more() {
  if (stop_.stop_requested()) co_return fail(Errc::cancelled, "told to stop");
  const std::uint64_t room = order_.names_of_chunk - chunk_.size();
  const UpstreamListOrder order{order_.info.prefix, after_, std::min(room, kUpstreamNamesAtOnce)};
  CO_TRY(
      const UpstreamPage page,
      co_await upstream_.list(source_.name, api::upstream_of(source_.name, source_.props), order));
  for (const UpstreamPage::Entry& each : page.entries) {
    after_ = each.name;
    // Names that no request may have are left out, as in a list of upstream.
    if (!api::check_object_name(each.name)) continue;
    if (chunk_.size() == 0) first_of_chunk_ = each.name;
    const std::string custom = each.etag.empty() ? "" : "[ETag:" + each.etag + "]";
    api::ListEntry entry;
    entry.name = each.name;
    entry.size = each.size;
    entry.custom = custom;
    chunk_.add(entry);
    ++order_.info.names;
    ++progress_.objects;
  }
  const bool is_last = !page.more || page.entries.empty();
  if (chunk_.size() >= order_.names_of_chunk || (is_last && chunk_.size() > 0)) {
    end_chunk();
    CO_FAIL_POINT("inventory.chunk");
  }
  if (is_last) end_file();
  co_return Status();
}

void InventoryRun::end_chunk() {
  const api::PackedPage page = std::exchange(chunk_, {}).take(false);
  const std::string bytes = api::encode_page(page.entries, false);
  chunks_.push_back(json::array({first_of_chunk_, offset_, bytes.size()}));
  made_ += bytes;
  offset_ += bytes.size();
}

void InventoryRun::end_file() {
  order_.info.finished_ns = node_.clock.wall_time().count();
  order_.info.chunks = chunks_.size();
  std::string index;
  json::to_msgpack(json{{"info", order_.info}, {"chunks", std::move(chunks_)}}, index);
  made_ += index;
  made_ += kInventoryMagic;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    made_ += static_cast<char>(static_cast<std::uint64_t>(index.size()) >> (8 * i));
  all_made_ = true;
}

/// An inventory that is read.
class InventoryReader {
 public:
  /// not_found when there is none; corrupt when it is no inventory.
  static Task<Result<InventoryReader>> open(TargetNode& node, BucketId store, std::string object);

  [[nodiscard]] const api::InventoryInfo& info() const { return info_; }
  Task<Result<api::PackedPage>> list(std::string prefix, std::string after, std::size_t limit,
                                     api::ListFields fields);

 private:
  struct Chunk {
    std::string first;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  Task<Result<std::string>> read(std::uint64_t begin, std::uint64_t bytes);
  Task<Status> read_index();

  std::shared_ptr<OpenObject> object_;
  api::InventoryInfo info_;
  std::vector<Chunk> chunks_;
};

Error no_inventory(const std::string& object) {
  return {Errc::corrupt, fmt::format("{} is no inventory", object)};
}

Task<Result<InventoryReader>> InventoryReader::open(TargetNode& node, BucketId store,
                                                    std::string object) {
  CO_TRY(const ObjectRequest wanted, co_await find_own(node, store, std::move(object)));
  InventoryReader out;
  CO_TRY(out.object_, co_await open_newest(node, wanted));
  if (!out.object_) co_return fail(object_missing(wanted));
  // An inventory is read from its end.
  if (!out.object_->has_checksums()) CO_TRY_OK(co_await out.object_->drive().adopt(*out.object_));
  CO_TRY_OK(co_await out.read_index());
  out.info_.bytes = out.object_->record().size;
  co_return out;
}

Task<Result<std::string>> InventoryReader::read(std::uint64_t begin, std::uint64_t bytes) {
  const std::uint64_t size = object_->file_bytes();
  if (bytes > size || begin > size - bytes) co_return fail(no_inventory(info_.object));
  BlockReader reader(*object_, begin, begin + bytes);
  const auto block = std::make_unique<std::array<std::byte, kBlockBytes>>();
  std::string out;
  std::uint64_t skip = begin % kBlockBytes;
  while (out.size() < bytes) {
    CO_TRY(const std::size_t got, co_await reader.next(*block));
    if (got <= skip) co_return fail(no_inventory(info_.object));
    const std::size_t count = std::min<std::uint64_t>(got - skip, bytes - out.size());
    out.append(reinterpret_cast<const char*>(block->data()) + skip, count);
    skip = 0;
  }
  co_return out;
}

Task<Status> InventoryReader::read_index() {
  const std::uint64_t size = object_->record().size;
  if (size < kTrailerBytes) co_return fail(no_inventory(""));
  CO_TRY(const std::string trailer, co_await read(size - kTrailerBytes, kTrailerBytes));
  if (!trailer.starts_with(kInventoryMagic)) co_return fail(no_inventory(""));
  std::uint64_t length = 0;
  for (std::size_t i = trailer.size(); i > kInventoryMagic.size(); --i)
    length = length << 8U | static_cast<unsigned char>(trailer[i - 1]);
  if (length > std::min<std::uint64_t>(size - kTrailerBytes, kIndexBytesMax))
    co_return fail(no_inventory(""));
  CO_TRY(const std::string index, co_await read(size - kTrailerBytes - length, length));
  co_return read_json(Errc::corrupt, "index of an inventory", [&] {
    const json in = json::from_msgpack(index);
    info_ = in.at("info").get<api::InventoryInfo>();
    for (const json& each : in.at("chunks"))
      chunks_.push_back({each.at(0).get<std::string>(), each.at(1).get<std::uint64_t>(),
                         each.at(2).get<std::uint64_t>()});
  });
}

Task<Result<api::PackedPage>> InventoryReader::list(std::string prefix, std::string after,
                                                    std::size_t limit, api::ListFields fields) {
  const std::string& from = std::max(prefix, after);
  auto chunk = std::upper_bound(
      chunks_.begin(), chunks_.end(), from,
      [](const std::string& name, const Chunk& each) { return name < each.first; });
  if (chunk != chunks_.begin()) --chunk;
  api::PagePacker packer;
  for (; chunk != chunks_.end(); ++chunk) {
    CO_TRY(std::string bytes, co_await read(chunk->offset, chunk->bytes));
    CO_TRY(const api::PackedPage page, api::decode_page(std::move(bytes)));
    for (const api::PackedEntry& each : page.entries) {
      if (each.name <= after || each.name < prefix) continue;
      if (!each.name.starts_with(prefix)) co_return packer.take(false);
      if (packer.size() == limit) co_return packer.take(true);
      CO_TRY(api::ListEntry entry, api::unpack_entry(each.bytes));
      if (!fields.size) entry.size = 0;
      if (!fields.etag) entry.custom = {};
      packer.add(entry);
    }
  }
  co_return packer.take(false);
}

Task<Status> start_inventory(TargetNode& node, Upstream& upstream, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kInventoryOrderMax));
  CO_TRY(Order order, inventory_order_in(body));
  const std::string job = order.job;
  InventoryRun run(node, upstream, std::move(order), co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, job, run);
}

Task<Result<InventoryReader>> inventory_of(TargetNode& node, const http::Request& request) {
  const auto store = parse_u64(request.query().get("store"));
  const auto bmd_version = parse_u64(request.query().get("bmd"));
  if (!store || !bmd_version) co_return fail(Errc::invalid_argument, "store= and bmd= are wanted");
  CO_TRY([[maybe_unused]] const auto state, co_await node.view.at_least(0, *bmd_version));
  co_return co_await InventoryReader::open(node, BucketId(*store),
                                           std::string(request.query().get("object")));
}

Task<Status> tell_inventory(TargetNode& node, http::Request& request) {
  CO_TRY(const InventoryReader inventory, co_await inventory_of(node, request));
  co_return co_await request.exchange.respond(
      http::Response(200, http::kJson, json(inventory.info()).dump()));
}

Task<Status> list_inventory(TargetNode& node, http::Request& request) {
  const auto& query = request.query();
  const auto limit = parse_u64(query.get("limit"));
  if (!limit || *limit == 0) co_return fail(Errc::invalid_argument, "limit= is wanted");
  CO_TRY(const auto fields, api::parse_list_fields(query.get("props")));
  CO_TRY(InventoryReader inventory, co_await inventory_of(node, request));
  CO_TRY(const api::PackedPage page,
         co_await inventory.list(std::string(query.get("prefix")), std::string(query.get("after")),
                                 *limit, fields));
  co_return co_await request.exchange.respond(
      http::Response(200, "application/msgpack", api::encode_page(page.entries, page.more)));
}

}  // namespace

std::vector<http::Route> inventory_routes(TargetNode& node, Upstream& upstream) {
  return {{"POST", "/v1/internal/inventory", "keep what upstream lists; a line on progress",
           [&node, &upstream](http::Request& request) {
             return start_inventory(node, upstream, request);
           }},
          {"DELETE", "/v1/internal/inventory", "stop that",
           [&node](http::Request& request) { return stop_job(node, request); }},
          {"GET", "/v1/internal/inventory", "what is known of an inventory",
           [&node](http::Request& request) { return tell_inventory(node, request); }},
          {"GET", "/v1/internal/inventory/list", "a page of an inventory",
           [&node](http::Request& request) { return list_inventory(node, request); }}};
}

}  // namespace tarn::target
