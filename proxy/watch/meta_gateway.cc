#include "proxy/watch/meta_gateway.h"

#include <functional>
#include <string>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "common/api/status.h"
#include "common/base/gather.h"
#include "common/base/local_address.h"
#include "common/cluster/store/gateway_json.h"

namespace tarn::proxy {
namespace {

using cluster::LeaseId;
using cluster::MetaStore;
using cluster::Revision;
using cluster::Transaction;
using cluster::WatchBatch;
using namespace std::chrono_literals;
namespace gateway = cluster::gateway;

constexpr std::size_t kBodyBytesMax = 4U << 20U;
constexpr auto kProgressEvery = 5s;
/// Bytes of a watch that wait for a client that reads slowly.
constexpr std::size_t kWatchBytesMax = 16U << 20U;

/// One call: what came, and the JSON that goes back.
using Call = Task<Result<std::string>> (*)(MetaStore& store, std::string body);

/// The store's revision, for headers: that of an empty read.
Task<Result<Revision>> revision_of(MetaStore& store) {
  cluster::RangeRequest nothing{std::string(1, '\0'), "", 1};
  CO_TRY(const auto read, co_await store.range(std::move(nothing)));
  co_return read.revision;
}

Task<Result<std::string>> range(MetaStore& store, std::string body) {
  CO_TRY(auto request, gateway::decode_range(body));
  CO_TRY(const auto result, co_await store.range(std::move(request)));
  co_return gateway::encode(result);
}

Task<Result<std::string>> txn(MetaStore& store, std::string body) {
  CO_TRY(const auto transaction, gateway::decode_transaction(body));
  CO_TRY(const auto result, co_await store.commit(transaction));
  co_return gateway::encode(result, transaction);
}

Task<Result<std::string>> commit(MetaStore& store, Transaction transaction) {
  CO_TRY(const auto result, co_await store.commit(std::move(transaction)));
  co_return gateway::encode_header(result.revision);
}

Task<Result<std::string>> put(MetaStore& store, std::string body) {
  Transaction transaction;
  CO_TRY(auto request, gateway::decode_put(body));
  transaction.puts.push_back(std::move(request));
  co_return co_await commit(store, std::move(transaction));
}

Task<Result<std::string>> delete_range(MetaStore& store, std::string body) {
  Transaction transaction;
  CO_TRY(auto request, gateway::decode_delete(body));
  transaction.deletes.push_back(std::move(request));
  co_return co_await commit(store, std::move(transaction));
}

Task<Result<std::string>> grant(MetaStore& store, std::string body) {
  CO_TRY(const auto ttl, gateway::decode_grant(body));
  CO_TRY(const LeaseId lease, co_await store.grant(ttl));
  co_return gateway::encode_granted(lease, ttl);
}

Task<Result<std::string>> keep_alive(MetaStore& store, std::string body) {
  CO_TRY(const LeaseId lease, gateway::decode_lease(body));
  const auto ttl = co_await store.keep_alive(lease);
  if (ttl) co_return gateway::encode_kept(lease, *ttl);
  if (ttl.error().code == Errc::not_found) co_return gateway::encode_kept(lease, std::nullopt);
  co_return fail(ttl.error());
}

Task<Result<std::string>> revoke(MetaStore& store, std::string body) {
  CO_TRY(const LeaseId lease, gateway::decode_lease(body));
  CO_TRY_OK(co_await store.revoke(lease));
  CO_TRY(const Revision revision, co_await revision_of(store));
  co_return gateway::encode_header(revision);
}

Task<Result<std::string>> time_to_live(MetaStore& store, std::string body) {
  CO_TRY(const LeaseId lease, gateway::decode_lease(body));
  const auto state = co_await store.time_to_live(lease);
  if (state) co_return gateway::encode_left(lease, *state);
  if (state.error().code == Errc::not_found) co_return gateway::encode_left(lease, std::nullopt);
  co_return fail(state.error());
}

Task<Status> respond_error(http::Exchange& exchange, Error error) {
  http::Response response(api::http_status(error.code), http::kJson, gateway::encode(error));
  co_return co_await exchange.respond(std::move(response));
}

Status check_caller(const http::Exchange& exchange) {
  if (is_local_address(exchange.remote_address())) return {};
  return fail(
      Errc::unsupported,
      "this cluster keeps its state in the embedded store of one proxy, which is for nodes of "
      "one machine; {} is not of it: a cluster of several machines needs etcd",
      exchange.remote_address());
}

Task<Status> serve(MetaStore& store, Call call, http::Request& request) {
  http::Exchange& exchange = request.exchange;
  if (auto local = check_caller(exchange); !local)
    co_return co_await respond_error(exchange, std::move(local).error());
  CO_TRY(auto body, co_await exchange.read_all(kBodyBytesMax));
  auto answer = co_await call(store, std::move(body));
  if (!answer) co_return co_await respond_error(exchange, std::move(answer).error());
  http::Response response(200, http::kJson, std::move(*answer));
  co_return co_await exchange.respond(std::move(response));
}

/// One open watch: a coroutine that fills `pending` from the store, and one that writes it out.
class WatchStream {
 public:
  WatchStream(MetaStore& store, http::Exchange& exchange, const asio::any_io_executor& executor)
      : store_(store), exchange_(exchange), wake_(executor) {}

  Task<Status> run(gateway::WatchRequest request, Revision now) {
    pending_ = gateway::encode_watch_created(now);
    last_ = now;
    auto ended = co_await first_of(fill(std::move(request)), drain());
    if (ended.index() == 1) co_return std::get<1>(std::move(ended));
    if (writing_) co_return fail(Errc::disconnected, "the watch ended inside a write");
    const Status& watch = std::get<0>(ended);
    if (!watch) pending_ += end_line(watch.error());
    CO_TRY_OK(co_await exchange_.write(pending_));
    co_return co_await exchange_.finish();
  }

 private:
  Task<Status> fill(gateway::WatchRequest request) {
    co_await asio::this_coro::throw_if_cancelled(false);
    bool overflow = false;
    const auto sink = [this, &overflow](const WatchBatch& batch) {
      pending_ += gateway::encode_watch_batch(batch);
      last_ = batch.revision;
      wake_.cancel();
      overflow = pending_.size() > kWatchBytesMax;
      return !overflow;
    };
    CO_TRY_OK(co_await store_.watch(std::move(request.key), request.from, sink));
    co_return fail(Errc::unavailable, "more events than this client reads");
  }

  Task<Status> drain() {
    co_await asio::this_coro::throw_if_cancelled(false);
    for (;;) {
      if (pending_.empty()) {
        wake_.expires_after(kProgressEvery);
        const auto [error] = co_await wake_.async_wait(kTuple);
        const auto state = co_await asio::this_coro::cancellation_state;
        if (state.cancelled() != asio::cancellation_type::none)
          co_return fail(Errc::cancelled, "the watch was cancelled");
        if (!error) pending_ = gateway::encode_watch_progress(last_);
      }
      const std::string text = std::exchange(pending_, {});
      writing_ = true;  // stays so when the write fails or is cancelled: the framing is broken then
      CO_TRY_OK(co_await exchange_.write(text));
      writing_ = false;
    }
  }

  [[nodiscard]] std::string end_line(const Error& error) const {
    if (error.code == Errc::conflict) return gateway::encode_watch_compacted(last_);
    return "{\"error\":" + gateway::encode(error) + "}\n";
  }

  MetaStore& store_;
  http::Exchange& exchange_;
  asio::steady_timer wake_;
  std::string pending_;
  Revision last_ = 0;
  bool writing_ = false;
};

Task<Status> watch(MetaStore& store, http::Request& request) {
  http::Exchange& exchange = request.exchange;
  if (auto local = check_caller(exchange); !local)
    co_return co_await respond_error(exchange, std::move(local).error());
  CO_TRY(const auto body, co_await exchange.read_all(kBodyBytesMax));
  auto wanted = gateway::decode_watch(body);
  if (wanted && wanted->range_end != cluster::prefix_end(wanted->key))
    wanted = fail(Errc::unsupported, "watches of anything but a prefix are not served here");
  if (!wanted) co_return co_await respond_error(exchange, std::move(wanted).error());
  const auto now = co_await revision_of(store);
  if (!now) co_return co_await respond_error(exchange, now.error());
  // From here on, so that no change is lost between this look and the watch.
  if (wanted->from == 0) wanted->from = *now + 1;
  exchange.close_after();
  http::Response head(200);
  head.set("Content-Type", http::kJson);
  CO_TRY_OK(co_await exchange.begin(std::move(head), std::nullopt));
  WatchStream stream(store, exchange, co_await asio::this_coro::executor);
  co_return co_await stream.run(std::move(*wanted), *now);
}

http::Route route(MetaStore& store, std::string_view pattern, std::string_view summary, Call call) {
  return {"POST", pattern, summary,
          [&store, call](http::Request& request) { return serve(store, call, request); }};
}

}  // namespace

std::vector<http::Route> meta_gateway_routes(MetaStore& store) {
  return {
      route(store, gateway::kRange, "meta store: read keys", range),
      route(store, gateway::kTxn, "meta store: compare and write", txn),
      route(store, gateway::kPut, "meta store: write one key", put),
      route(store, gateway::kDeleteRange, "meta store: delete keys", delete_range),
      route(store, gateway::kGrant, "meta store: grant a lease", grant),
      route(store, gateway::kKeepAlive, "meta store: renew a lease", keep_alive),
      route(store, gateway::kRevoke, "meta store: end a lease and delete its keys", revoke),
      route(store, gateway::kTimeToLive, "meta store: what a lease has left", time_to_live),
      {"POST", gateway::kWatch, "meta store: changes of a prefix, as they happen",
       [&store](http::Request& request) { return watch(store, request); }},
  };
}

}  // namespace tarn::proxy
