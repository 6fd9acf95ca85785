// Steps of a GET of a coded object (docs/decisions/019, "A read"). get.cc has found its record.

#include "target/request/get_coded.h"

#include "common/cluster/place/slice_plan.h"
#include "common/obs/log.h"
#include "target/coded/coded_read.h"
#include "target/coded/slice_holder.h"
#include "target/drive/slice_ids.h"
#include "target/node/bodies.h"
#include "target/node/in_time.h"
#include "target/node/sender.h"
#include "target/repair/coded_repair.h"

namespace tarn::target {
namespace {

/// Time that a reader waits for the drive of the full copy before he is sent slices
/// (docs/reliability.md C11).
constexpr std::chrono::seconds kGetCodedPatience{1};

SliceKey key_of_full_copy(const ObjectName& name, const io::Coding& coding) {
  return {name.bucket, name.object, coding.set, io::kFullCopy};
}

Task<Result<std::shared_ptr<OpenObject>>> open_here(TargetNode& node, SliceKey key,
                                                    bool unless_slow) {
  co_return co_await node.store.slices().open(std::move(key), unless_slow);
}

/// The full copy, when the record names it here and it can be opened; else null.
Task<std::shared_ptr<OpenObject>> open_full_copy(TargetNode& node, const ObjectName& name,
                                                 const io::Coding& coding, bool unless_slow) {
  if (coding.full_copy != node.id) co_return nullptr;
  const SliceKey key = key_of_full_copy(name, coding);
  auto opened = co_await in_time(node, open_here(node, key, unless_slow), kGetCodedPatience);
  if (opened) co_return std::move(*opened);
  if (opened.error().code == Errc::timeout) co_return nullptr;
  note_if_bad(node, key, opened.error());
  // Gone, maybe: the repair finds out.
  node.repair_requests.add(name.bucket, name.object);
  obs::log("target").warn("full copy passed over by a reader object={} err={}", name.object,
                          opened.error().message);
  co_return nullptr;
}

/// True if the drive failed, or hangs, and not the client.
bool is_of_drive(const Error& error) {
  return error.code == Errc::corrupt || error.code == Errc::io || error.code == Errc::unavailable;
}

/// Sends the range from the full copy, if there is one here. False: bytes from `range.offset` on,
/// which is moved, are to come from elsewhere.
Task<Result<bool>> send_full_copy(TargetNode& node, http::Exchange& exchange,
                                  const ObjectRequest& wanted, const io::ObjectRecord& record,
                                  http::ByteRange& range, const http::Response& response,
                                  bool unless_slow) {
  const auto full_copy = co_await open_full_copy(node, wanted.name, *record.coding, unless_slow);
  // A full copy of another length is not the one that the record means.
  if (full_copy == nullptr || full_copy->file_bytes() != record.size) co_return false;
  Sender sender(exchange, full_copy, range, node.verify_always, nullptr, true);
  Status sent = co_await sender.begin(response);
  if (sent && !sender.done()) sent = co_await sender.send();
  if (sent) co_return true;
  if (!is_of_drive(sent.error())) co_return fail(sent.error());
  note_if_bad(node, key_of_full_copy(wanted.name, *record.coding), sent.error());
  obs::log("target").warn("full copy given up by a reader object={} at={} err={}",
                          wanted.name.object, sender.at(), sent.error().message);
  range.length -= sender.at() - range.offset;
  range.offset = sender.at();
  co_return false;
}

using Lane = std::shared_ptr<SliceLane>;

/// `late`: the caller no longer waits for it.
Task<Result<Lane>> get_coded_open_lane(TargetNode& node, SliceWrite write,
                                       std::shared_ptr<bool> late) {
  auto lane = co_await SliceLane::open(node, node.id, std::move(write));
  if (lane && *late) (*lane)->give_up();
  co_return lane;
}

/// Restores of the whole process: no two sets have one number.
Restores& restores() {
  static Restores all;
  return all;
}

/// The full copy, which a reader of all bytes leaves at an owner that should have it. A drive that
/// does not keep up with the reader is no use.
class Restoring {
 public:
  static Task<Restoring> begin(TargetNode& node, const ObjectName& name,
                               const io::ObjectRecord& record, const http::ByteRange& range) {
    Restoring out(node, name, record);
    const io::Coding& coding = *record.coding;
    const auto standing = cluster::standing_members(*node.view.state()->ownership->map);
    const bool wanted =
        coding.layout == io::Coding::Layout::whole && coding.full_copy != node.id &&
        range.offset == 0 && range.length == record.size &&
        is_holder_of_full_copy(standing, cluster::placement_digest(name.uname), node.id);
    if (!wanted) co_return out;
    if (auto turn = restores().begin(coding.set); turn.got()) {
      out.turn_.emplace(std::move(turn));
      SliceWrite write;
      write.token = new_slice_token();
      write.key = key_of_full_copy(name, coding);
      write.geometry = geometry_of(coding);
      write.bytes = record.size;
      const auto late = std::make_shared<bool>(false);
      auto lane = co_await in_time(node, get_coded_open_lane(node, std::move(write), late),
                                   kGetCodedPatience);
      *late = !lane;
      if (lane) out.lane_ = std::move(*lane);
    }
    co_return out;
  }
  Restoring(Restoring&&) = default;
  Restoring& operator=(Restoring&&) = delete;
  ~Restoring() {
    if (lane_ != nullptr) lane_->give_up();
  }

  Task<void> take(std::span<const std::byte> part) {
    if (lane_ == nullptr) co_return;
    const auto copy = std::make_shared<const std::vector<std::byte>>(part.begin(), part.end());
    const Status pushed = lane_->has_room() ? co_await lane_->push(copy, *copy)
                                            : fail(Errc::timeout, "the drive does not keep up");
    if (pushed) co_return;
    lane_->give_up();
    lane_ = nullptr;
  }
  /// All has been taken.
  Task<void> end() {
    if (lane_ == nullptr) co_return;
    node_.aside.spawn(co_await asio::this_coro::executor, "full copy",
                      keep_full_copy(node_, std::move(object_), std::exchange(lane_, nullptr),
                                     std::move(*turn_)));
  }

 private:
  Restoring(TargetNode& node, const ObjectName& name, const io::ObjectRecord& record)
      : node_(node), object_{name, record} {}

  TargetNode& node_;
  CodedObject object_;
  std::optional<Restores::Turn> turn_;
  std::shared_ptr<SliceLane> lane_;  // null: nothing is restored
};

}  // namespace

Task<Status> send_coded(TargetNode& node, http::Exchange& exchange, const ObjectRequest& wanted,
                        const io::ObjectRecord& record, http::ByteRange range,
                        http::Response response, bool& overtaken) {
  CO_TRY(const bool sent,
         co_await send_full_copy(node, exchange, wanted, record, range, response, true));
  if (sent) co_return co_await exchange.finish();
  CO_TRY_OK(check_memory());
  CodedReader reader(node, wanted.name, record, range.offset, range.offset + range.length);
  auto first = co_await reader.next();
  const bool begun = exchange.response_started();
  overtaken = reader.overtaken() && !begun;
  if (!first && !begun && !overtaken) {  // a full copy on a slow drive is better than nothing
    CO_TRY(const bool sent_late,
           co_await send_full_copy(node, exchange, wanted, record, range, response, false));
    if (sent_late) co_return co_await exchange.finish();
  }
  if (!first) co_return fail(first.error());
  auto parts = *first;
  if (!begun) CO_TRY_OK(co_await exchange.begin(std::move(response), range.length));
  Restoring restoring = co_await Restoring::begin(node, wanted.name, record, range);
  while (!parts.empty()) {
    for (const auto& part : parts) {
      CO_TRY_OK(co_await exchange.write(part));
      co_await restoring.take(part);
    }
    CO_TRY(parts, co_await reader.next());
  }
  co_await restoring.end();
  co_return co_await exchange.finish();
}

}  // namespace tarn::target
