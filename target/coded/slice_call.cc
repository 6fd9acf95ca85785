#include "target/coded/slice_call.h"

#include <algorithm>

namespace tarn::target {
namespace {

/// Wakes the waiting caller, whatever ends the call.
struct Ring {
  SliceCall& call;
  asio::steady_timer& bell;
  Ring(SliceCall& its_call, asio::steady_timer& its_bell) : call(its_call), bell(its_bell) {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (!call.result) call.result = fail(Errc::cancelled, "the reading of a slice was ended");
    call.took = std::chrono::steady_clock::now() - call.begun;
    bell.cancel();
  }
};

Task<Status> open_and_fetch(TargetNode& node, SliceCall& call) {
  if (!call.source) {
    CO_TRY(call.source, co_await SliceSource::open(node, call.holder, call.key, call.layout,
                                                   call.rest, call.purpose, call.unless_slow));
  }
  co_return co_await call.source->fetch(call.missing);
}

Task<void> run(TargetNode& node, std::shared_ptr<SliceCall> call,
               std::shared_ptr<asio::steady_timer> bell) {
  const Ring ring(*call, *bell);
  call->result = co_await open_and_fetch(node, *call);
}

}  // namespace

void start(TargetNode& node, const std::shared_ptr<SliceCall>& call,
           std::shared_ptr<asio::steady_timer> bell) {
  const auto executor = bell->get_executor();
  if (!node.aside.spawn(executor, "slice read", run(node, call, std::move(bell))))
    call->result = fail(Errc::unavailable, "this target is about to end");
}

std::chrono::steady_clock::duration late_after(std::span<std::chrono::steady_clock::duration> took,
                                               std::size_t asked) {
  if (took.empty() || took.size() * 2 < asked) return kLateAlone;
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>((took.size() - 1) / 2);
  std::nth_element(took.begin(), middle, took.end());
  return std::max<std::chrono::steady_clock::duration>(kLateAtLeast, 4 * *middle);
}

}  // namespace tarn::target
