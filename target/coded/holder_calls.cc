#include "target/coded/holder_calls.h"

#include <nlohmann/json.hpp>

#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "target/coded/slice_holder.h"
#include "target/coded/slice_judge.h"
#include "target/node/node_call.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHolderCallsAnswerBytes = 4096;
/// A target that does not even connect in this time is passed over: there are other slices.
constexpr auto kConnectLimit = 300ms;
constexpr auto kStallLimit = 5s;
constexpr auto kLiveLookEvery = 1s;
/// A seal waits for the syncs of a drive that may have much to write.
constexpr http::CallLimits kSealLimits{.connect = 1s, .total = 30s};
constexpr http::CallLimits kHolderCallsAskLimits{.connect = 1s, .total = 10s};
/// An owner may have to commit for each.
constexpr http::CallLimits kJudgeLimits{.connect = 1s, .total = 60s};
constexpr http::CallLimits kHolderCallsTellLimits{.connect = kConnectLimit, .total = 2s};

/// Ends, with an error, when the lease of another target has ended. A target that stands still may
/// sync for long, but is not waited for longer than that.
Task<Status> while_live(TargetNode& node, std::string id) {
  EventListener changes(node.view.changed(), co_await asio::this_coro::executor);
  while (node.view.state()->live.contains(id))
    co_await changes.wait_until(std::chrono::steady_clock::now() + kLiveLookEvery);
  co_return fail(Errc::disconnected, "target t[{}] did not answer, and its lease has ended", id);
}

AsOf holder_calls_present(const TargetNode& node) {
  const auto state = node.view.state();
  return {state->map.version, state->bmd.version};
}

std::string with(const char* path, const api::Query& query) {
  return std::string(path) + "?" + query.encode();
}

Error no_answer(const std::string& holder, const Error& cause) {
  return {Errc::disconnected,
          fmt::format("target t[{}] did not answer: {}", holder, cause.message)};
}

Task<Result<http::ClientStream>> open_stream(TargetNode& node, const std::string& holder,
                                             http::Method method, std::string target,
                                             http::Fields fields = {},
                                             std::optional<std::uint64_t> length = {}) {
  const auto state = node.view.state();
  const cluster::Node* to = state->map.find(holder);
  if (to == nullptr) co_return fail(Errc::unavailable, "target t[{}] is not in the map", holder);
  CO_TRY(http::Url address, http::parse_url(to->internal_url));
  auto request = signed_call(node, method, std::move(target));
  request.fields.insert(request.fields.end(), fields.begin(), fields.end());
  auto opened = co_await node.client.open(std::move(address), std::move(request), length,
                                          {.connect = kConnectLimit, .stall = kStallLimit});
  if (!opened) co_return fail(no_answer(holder, opened.error()));
  co_return opened;
}

Task<Status> holder_calls_tell(TargetNode& node, std::string holder, std::string target,
                               std::string body, http::CallLimits limits) {
  auto request = signed_call(node, http::Method::post, std::move(target));
  request.body = std::move(body);
  CO_TRY(const auto answer, co_await ask_target(node, holder, std::move(request), limits));
  if (answer.status == 200) co_return Status();
  co_return fail(error_of_answer(holder, answer.status, answer.body));
}

}  // namespace

Task<Result<SliceUpload>> SliceUpload::open(TargetNode& node, std::string holder,
                                            const SliceWrite& write) {
  CO_FAIL_POINT("slice.upload");
  std::string target = with(kSliceWritePath, to_query(write, holder_calls_present(node)));
  CO_TRY(auto stream, co_await open_stream(node, holder, http::Method::put, std::move(target),
                                           {{"Expect", "100-continue"}}, write.bytes));
  // The holder reports before the first byte if it has a drive for the slice.
  const auto answer = co_await stream.read_head();
  if (!answer) co_return fail(no_answer(holder, answer.error()));
  if (answer->status == 100) co_return SliceUpload(std::move(holder), std::move(stream));
  const std::string text = co_await read_text(stream, kHolderCallsAnswerBytes);
  co_return fail(error_of_answer(holder, answer->status, text));
}

Task<Status> SliceUpload::write(std::span<const std::byte> bytes) {
  // The holder refuses what it does not take before it has read it.
  if (stream_.answer_ready()) {
    CO_TRY_OK(co_await read_answer());
    co_return fail(Errc::disconnected, "target t[{}] answered before the slice had ended", holder_);
  }
  const Status sent = co_await stream_.write(bytes);
  if (!sent) {
    CO_TRY_OK(co_await read_answer());
    co_return fail(no_answer(holder_, sent.error()));
  }
  sent_ += bytes.size();
  co_return Status();
}

Task<Status> SliceUpload::finish() {
  if (!stream_.answer_ready()) CO_TRY_OK(co_await stream_.finish());
  co_return co_await read_answer();
}

Task<Status> SliceUpload::read_answer() {
  const auto answer = co_await stream_.read_head();
  if (!answer) co_return fail(no_answer(holder_, answer.error()));
  const std::string text = co_await read_text(stream_, kHolderCallsAnswerBytes);
  if (answer->status != 200) co_return fail(error_of_answer(holder_, answer->status, text));
  if (nlohmann::json::parse(text, nullptr, false) == nlohmann::json{{"bytes", sent_}})
    co_return Status();
  co_return fail(Errc::disconnected, "target t[{}] did not take all of the slice", holder_);
}

Task<Result<SliceDownload>> SliceDownload::open(TargetNode& node, std::string holder,
                                                SliceRead read) {
  CO_FAIL_POINT("slice.download");
  std::string target = with(kSliceReadPath, to_query(read, holder_calls_present(node)));
  CO_TRY(auto stream, co_await open_stream(node, holder, http::Method::get, std::move(target)));
  const auto answer = co_await stream.read_head();
  if (!answer) co_return fail(no_answer(holder, answer.error()));
  if (answer->status == 200 && stream.content_length() == read.range.bytes)
    co_return SliceDownload(std::move(holder), std::move(stream));
  const std::string text = co_await read_text(stream, kHolderCallsAnswerBytes);
  if (answer->status != 200) co_return fail(error_of_answer(holder, answer->status, text));
  co_return fail(Errc::disconnected, "target t[{}] answers with another length", holder);
}

Task<Status> SliceDownload::read(std::span<std::byte> into) {
  while (!into.empty()) {
    const auto got = co_await stream_.read_some(into);
    if (!got || *got == 0)
      co_return fail(Errc::disconnected, "target t[{}] broke off: {}", holder_,
                     got ? "the slice ended early" : got.error().message);
    into = into.subspan(*got);
  }
  co_return Status();
}

Task<Status> seal_at(TargetNode& node, std::string holder, SliceSeal seal) {
  CO_FAIL_POINT("slice.seal_at");
  std::string target = with(kSliceSealPath, to_query(seal, holder_calls_present(node)));
  auto first = co_await first_of(
      holder_calls_tell(node, holder, std::move(target), to_body(seal), kSealLimits),
      while_live(node, holder));
  co_return first.index() == 0 ? std::get<0>(std::move(first)) : std::get<1>(std::move(first));
}

Task<Status> abandon_at(TargetNode& node, std::string holder, SliceToken token) {
  std::string target = with(kSliceAbandonPath, to_query(token));
  co_return co_await holder_calls_tell(node, std::move(holder), std::move(target), {},
                                       kHolderCallsTellLimits);
}

Task<Status> drop_at(TargetNode& node, std::string holder, SliceDrop drop) {
  std::string target = with(kSliceDropPath, to_query(drop, holder_calls_present(node)));
  co_return co_await holder_calls_tell(node, std::move(holder), std::move(target), {},
                                       kHolderCallsTellLimits);
}

Task<Status> tell_bad(TargetNode& node, std::string owner, SliceKey key) {
  if (owner == node.id) {
    node.repair_requests.add(key.bucket, key.name);
    co_return Status();
  }
  std::string target = with(kSliceBadPath, to_query(key, holder_calls_present(node)));
  co_return co_await holder_calls_tell(node, std::move(owner), std::move(target), {},
                                       kHolderCallsTellLimits);
}

Task<std::vector<SliceSeen>> states_at(TargetNode& node, std::string holder,
                                       std::vector<SliceKey> keys) {
  if (holder == node.id) co_return co_await states_here(node, std::move(keys));
  const auto state = node.view.state();
  const cluster::Node* member = state->map.find(holder);
  const bool gone = member == nullptr || (member->flags & cluster::kOut) != 0;
  const SliceSeen unheard{
      .state = gone ? SliceState::missing : SliceState::waiting, .drive = 0, .unheard = !gone};
  std::vector<SliceSeen> out(keys.size(), unheard);
  if (gone || !state->live.contains(holder)) co_return out;
  auto request = signed_call(node, http::Method::post,
                             with(kSliceHavePath, to_query(holder_calls_present(node))));
  request.body = to_body(std::span<const SliceKey>(keys));
  const auto answer =
      co_await ask_target(node, std::move(holder), std::move(request), kHolderCallsAskLimits);
  if (!answer || answer->status != 200) co_return out;
  auto said = slices_seen_in(answer->body);
  if (said && said->size() == keys.size()) out = std::move(*said);
  co_return out;
}

Task<std::vector<SliceVerdict>> ask_owner(TargetNode& node, std::string owner,
                                          std::vector<HeldSlice> slices) {
  if (owner == node.id) co_return co_await judge(node, std::move(owner), std::move(slices));
  std::vector<SliceVerdict> out(slices.size());
  auto request = signed_call(node, http::Method::post,
                             with(kSliceAskPath, to_query(holder_calls_present(node))));
  request.body = to_body(std::span<const HeldSlice>(slices));
  const auto answer = co_await ask_target(node, std::move(owner), std::move(request), kJudgeLimits);
  if (!answer || answer->status != 200) co_return out;
  auto said = slice_verdicts_of(answer->body);
  if (said && said->size() == slices.size()) out = std::move(*said);
  co_return out;
}

}  // namespace tarn::target
