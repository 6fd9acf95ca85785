#include "common/cluster/store/gateway_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/base/event.h"
#include "common/base/gather.h"
#include "common/base/resume.h"
#include "common/base/snapshot.h"
#include "common/cluster/store/gateway_json.h"

namespace tarn::cluster {
namespace {

using namespace std::chrono_literals;

/// A call that may be sent again although it may have been done already, or one that may not.
enum class Repeat : std::uint8_t { harmless, never };

/// Limit for all tries of a call. No longer than a lease lasts: a later answer is of no use.
constexpr auto kCallMost = 4s;
/// Time of silence after which an endpoint may be cut off: the next one is asked as well.
constexpr auto kPatience = 1s;
/// A watch may be silent: etcd reports progress every 10 minutes only. Other calls find out if the
/// store is there.
constexpr http::CallLimits kWatchLimits{.connect = kCallMost, .total = kCallMost, .stall = 15min};
constexpr std::size_t kWatchLineBytesMax = 16U << 20U;

http::ClientRequest make_request(std::string_view path, const std::string& body) {
  http::ClientRequest request;
  request.method = http::Method::post;
  request.target = path;
  request.fields.push_back({"Content-Type", "application/json"});
  request.body = body;
  return request;
}

/// A call, whichever endpoint answers it.
struct Question {
  std::string_view path;
  std::string body;
  std::chrono::steady_clock::time_point until;
};

http::CallLimits limits_until(std::chrono::steady_clock::time_point until) {
  const auto left = std::max(std::chrono::duration_cast<std::chrono::milliseconds>(
                                 until - std::chrono::steady_clock::now()),
                             1ms);
  return {.connect = left, .total = left};
}

/// True if another endpoint may do better.
bool may_be_the_endpoint(Errc code) {
  return code == Errc::unavailable || code == Errc::timeout || code == Errc::disconnected ||
         code == Errc::io;
}

/// Race of two tries of the same call: the first answer ends it, and the try that fails first
/// leaves it to the other. Of one loop.
class Race {
 public:
  explicit Race(const asio::any_io_executor& executor) : patience_(executor, kPatience) {}

  /// Waits until the first has failed or been silent for kPatience.
  Task<void> wait_for_first() { (void)co_await patience_.async_wait(kTuple); }
  /// Takes the result of a try. Ends at once when that ends the race, else when it is cancelled.
  Task<Result<std::string>> end(Result<std::string> answer) {
    if (answer || !may_be_the_endpoint(answer.error().code) || std::exchange(one_failed_, true))
      co_return answer;
    patience_.expires_at(std::chrono::steady_clock::time_point::min());
    if (co_await is_cancelled()) co_return answer;  // a wait that begins now would not notice it
    asio::steady_timer never(co_await asio::this_coro::executor,
                             std::chrono::steady_clock::time_point::max());
    (void)co_await never.async_wait(kTuple);
    co_return answer;
  }

 private:
  asio::steady_timer patience_;
  bool one_failed_ = false;
};

/// Cuts a byte stream into lines and hands the events of each on.
class WatchReader {
 public:
  explicit WatchReader(std::function<bool(WatchBatch)> sink) : sink_(std::move(sink)) {}

  /// False when the sink has had enough.
  Result<bool> take(std::string_view bytes) {
    pending_ += bytes;
    std::size_t begin = 0;
    for (auto end = pending_.find('\n'); end != std::string::npos;
         end = pending_.find('\n', begin)) {
      const auto line = std::string_view(pending_).substr(begin, end - begin);
      begin = end + 1;
      if (line.empty()) continue;
      TRY(auto batch, gateway::decode_watch_line(line));
      if (!batch.events.empty() && !sink_(std::move(batch))) return false;
    }
    pending_.erase(0, begin);
    if (pending_.size() > kWatchLineBytesMax)
      return fail(Errc::unavailable, "a line of the watch has more than {} bytes",
                  kWatchLineBytesMax);
    return true;
  }

 private:
  std::function<bool(WatchBatch)> sink_;
  std::string pending_;
};

}  // namespace

struct GatewayStore::Impl {
  http::Client client;
  std::vector<std::string> endpoints;
  Sign sign;
  std::optional<EtcdUser> user;
  /// Counts up whenever the endpoint of this number (modulo their count) is left for the next.
  std::atomic<std::size_t> preferred{0};
  Event moved;                  // preferred has changed
  Snapshot<std::string> token;  // of the last login

  Task<Status> log_in(std::string endpoint, std::shared_ptr<const std::string> used);
  std::shared_ptr<const std::string> prepare(http::ClientRequest& request) const;
  Task<Result<std::string>> call(std::string_view path, std::string body, Repeat repeat);
  Task<Result<std::string>> ask_from(std::size_t at, std::size_t count, const Question& question);
  Task<Result<std::string>> ask_first(std::size_t at, const Question& question, Race& race);
  Task<Result<std::string>> ask_next(std::size_t at, std::size_t count, const Question& question,
                                     Race& race);
  Task<Result<std::string>> change(const Question& question);
  Task<Result<std::string>> change_at(std::size_t at, const Question& question);
  Task<Result<std::string>> call_one(std::size_t at, const Question& question);
  [[nodiscard]] const std::string& endpoint(std::size_t at) const {
    return endpoints[at % endpoints.size()];
  }
  Task<Status> watch_one(std::string endpoint, std::string body, WatchReader& reader);
  void leave(std::size_t at) {
    if (preferred.compare_exchange_strong(at, at + 1)) moved.ring();
  }
  Task<void> left(std::size_t at);
  Task<Result<http::ClientStream>> open_watch(std::string endpoint, std::string body);
};

/// Signs `request` and adds the token, which is returned.
std::shared_ptr<const std::string> GatewayStore::Impl::prepare(http::ClientRequest& request) const {
  if (sign) sign(request);
  auto its = token.get();
  if (user && !its->empty()) request.fields.push_back({"Authorization", *its});
  return its;
}

/// Gets a new token, unless another call has done so since `used` was taken.
Task<Status> GatewayStore::Impl::log_in(std::string endpoint,
                                        std::shared_ptr<const std::string> used) {
  if (token.get() != used) co_return Status();
  CO_TRY(auto url, http::parse_http_or_https(endpoint));
  auto request =
      make_request(gateway::kAuthenticate, gateway::encode_login(user->name, user->password));
  CO_TRY(const auto answer, co_await client.call(std::move(url), std::move(request)));
  if (answer.status != 200) {
    const Error error = gateway::decode_error(answer.status, answer.body);
    // etcd reports a wrong password as a malformed request, which no repetition mends.
    const bool away = error.code == Errc::unavailable;
    co_return fail(away ? Errc::unavailable : Errc::unauthenticated, "login of user '{}' at {}: {}",
                   user->name, endpoint, error.message);
  }
  CO_TRY(auto fresh, gateway::decode_token(answer.body));
  token.set(std::make_shared<const std::string>(std::move(fresh)));
  co_return Status();
}

/// One call to one endpoint, which is left when it fails. unavailable means that it was not done;
/// timeout, disconnected and io that its outcome is unknown.
Task<Result<std::string>> GatewayStore::Impl::call_one(std::size_t at, const Question& question) {
  CO_TRY(const auto url, http::parse_http_or_https(endpoint(at)));
  // Without a token etcd may take us for an anonymous user, which is not asked to log in but
  // denied.
  auto until = question.until;
  if (user && token.get()->empty()) CO_TRY_OK(co_await log_in(endpoint(at), token.get()));
  if (user) until = std::max(until, std::chrono::steady_clock::now() + kCallMost);
  for (bool first = true;; first = false) {
    auto request = make_request(question.path, question.body);
    const auto used = prepare(request);
    auto answer = co_await client.call(url, std::move(request), limits_until(until));
    if (!answer) {
      Error error = std::move(answer).error();
      if (may_be_the_endpoint(error.code)) leave(at);
      error.message = "meta store " + endpoint(at) + ": " + error.message;
      co_return fail(std::move(error));
    }
    if (answer->status == 200) co_return std::move(answer->body);
    if (first && user && gateway::wants_login(answer->status, answer->body)) {
      CO_TRY_OK(co_await log_in(endpoint(at), used));
      until = std::chrono::steady_clock::now() + kCallMost;  // a login is slow on purpose
      continue;
    }
    Error error = gateway::decode_error(answer->status, answer->body);
    // Answer of the store itself: quorum was lost or a write failed under way.
    if (error.code == Errc::unavailable) {
      error = {Errc::timeout, "meta store " + endpoint(at) + ": " + error.message};
      leave(at);
    }
    co_return fail(std::move(error));
  }
}

Task<Result<std::string>> GatewayStore::Impl::call(std::string_view path, std::string body,
                                                   Repeat repeat) {
  if (endpoints.empty()) co_return fail(Errc::invalid_argument, "no meta store is configured");
  const Question question{path, std::move(body), std::chrono::steady_clock::now() + kCallMost};
  auto tries = repeat == Repeat::never ? change(question)
                                       : ask_from(preferred.load(), endpoints.size(), question);
  auto answer = co_await cancellation_as_value(std::move(tries));
  if (!answer && may_be_the_endpoint(answer.error().code))
    co_return fail(Errc::unavailable, "{}", answer.error().message);
  co_return answer;
}

/// Asks endpoint `at`, and when it fails or is silent the `count` - 1 after it, one by one: an
/// answer that is slow on its way is still awaited, and one that never comes costs kPatience.
Task<Result<std::string>> GatewayStore::Impl::ask_from(std::size_t at, std::size_t count,
                                                       const Question& question) {
  if (count == 1) co_return co_await call_one(at, question);
  // A cancellation that came before the two are joined would reach neither of them.
  if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the call was cancelled");
  Race race(co_await asio::this_coro::executor);
  auto ended =
      co_await first_of(ask_first(at, question, race), ask_next(at + 1, count - 1, question, race));
  if (ended.index() == 0) co_return std::move(std::get<0>(ended));
  if (std::get<1>(ended)) leave(at);
  co_return std::move(std::get<1>(ended));
}

Task<Result<std::string>> GatewayStore::Impl::ask_first(std::size_t at, const Question& question,
                                                        Race& race) {
  co_await asio::this_coro::throw_if_cancelled(false);
  auto answer = co_await call_one(at, question);
  co_return co_await race.end(std::move(answer));
}

Task<Result<std::string>> GatewayStore::Impl::ask_next(std::size_t at, std::size_t count,
                                                       const Question& question, Race& race) {
  co_await asio::this_coro::throw_if_cancelled(false);
  co_await race.wait_for_first();
  if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the call was cancelled");
  auto answer = co_await ask_from(at, count, question);
  co_return co_await race.end(std::move(answer));
}

/// A call that must not be sent again when it may have arrived.
Task<Result<std::string>> GatewayStore::Impl::change(const Question& question) {
  Result<std::string> answer;
  for (std::size_t tried = 0; tried < endpoints.size(); ++tried) {
    answer = co_await change_at(preferred.load(), question);
    // The change may have been done unless the connection was refused.
    if (answer || answer.error().code != Errc::unavailable) break;
  }
  co_return answer;
}

/// Does not wait for an endpoint that does not answer other calls either.
Task<Result<std::string>> GatewayStore::Impl::change_at(std::size_t at, const Question& question) {
  if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the call was cancelled");
  auto ended = co_await first_of(call_one(at, question), left(at));
  if (ended.index() == 0) co_return std::move(std::get<0>(ended));
  co_return fail(Errc::timeout, "meta store {}: calls to it fail", endpoint(at));
}

/// A watch whose request is sent.
Task<Result<http::ClientStream>> GatewayStore::Impl::open_watch(std::string endpoint,
                                                                std::string body) {
  CO_TRY(auto url, http::parse_http_or_https(endpoint));
  auto request = make_request(gateway::kWatch, "");
  // etcd: end the watch when the member loses its leader, instead of staying silent.
  request.fields.push_back({"Grpc-Metadata-Hasleader", "true"});
  prepare(request);
  CO_TRY(auto stream,
         co_await client.open(std::move(url), std::move(request), body.size(), kWatchLimits));
  CO_TRY_OK(co_await stream.write(std::as_bytes(std::span(body))));
  CO_TRY_OK(co_await stream.finish());
  co_return stream;
}

/// A token that has ended is renewed by other calls, which are made all the time: the next watch
/// has it.
Task<Status> GatewayStore::Impl::watch_one(std::string endpoint, std::string body,
                                           WatchReader& reader) {
  co_await asio::this_coro::throw_if_cancelled(false);
  CO_TRY(auto stream, co_await open_watch(endpoint, body));
  CO_TRY(const auto head, co_await stream.read_head());
  std::array<char, 16UL * 1024> buffer{};
  if (head.status != 200) {
    CO_TRY(const auto count, co_await stream.read_some(std::as_writable_bytes(std::span(buffer))));
    co_return fail(gateway::decode_error(head.status, {buffer.data(), count}));
  }
  for (;;) {
    CO_TRY(const auto count, co_await stream.read_some(std::as_writable_bytes(std::span(buffer))));
    if (count == 0) co_return fail(Errc::unavailable, "the watch ended");
    CO_TRY(const auto more, reader.take({buffer.data(), count}));
    if (!more) co_return Status();
    // Taking a few bytes may be long work, and the next are there already: leases wait meanwhile.
    co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
  }
}

/// Ends when calls have left endpoint `at` for another one.
Task<void> GatewayStore::Impl::left(std::size_t at) {
  co_await asio::this_coro::throw_if_cancelled(false);
  EventListener moves(moved, co_await asio::this_coro::executor);
  while (preferred.load() == at || endpoints.size() == 1) {
    co_await moves.wait_until(std::chrono::steady_clock::time_point::max());
    if (co_await is_cancelled()) co_return;
  }
}

GatewayStore::GatewayStore(http::Client client, std::vector<std::string> endpoints, Sign sign,
                           std::optional<EtcdUser> user)
    : impl_(std::make_unique<Impl>()) {
  impl_->client = std::move(client);
  impl_->endpoints = std::move(endpoints);
  impl_->sign = std::move(sign);
  impl_->user = std::move(user);
}

GatewayStore::~GatewayStore() = default;

Task<Result<RangeResult>> GatewayStore::range(RangeRequest request) {
  CO_TRY(const auto body,
         co_await impl_->call(gateway::kRange, gateway::encode(request), Repeat::harmless));
  co_return gateway::decode_range_result(body);
}

Task<Result<TransactionResult>> GatewayStore::commit(Transaction transaction) {
  CO_TRY(const auto body,
         co_await impl_->call(gateway::kTxn, gateway::encode(transaction), Repeat::never));
  co_return gateway::decode_transaction_result(body);
}

Task<Result<LeaseId>> GatewayStore::grant(std::chrono::seconds ttl) {
  // Granted twice, one of the two ends unused.
  CO_TRY(const auto body,
         co_await impl_->call(gateway::kGrant, gateway::encode_grant(ttl), Repeat::harmless));
  co_return gateway::decode_granted(body);
}

Task<Result<std::chrono::seconds>> GatewayStore::keep_alive(LeaseId lease) {
  CO_TRY(const auto body,
         co_await impl_->call(gateway::kKeepAlive, gateway::encode_lease(lease), Repeat::harmless));
  co_return gateway::decode_kept(body);
}

Task<Status> GatewayStore::revoke(LeaseId lease) {
  const auto answer =
      co_await impl_->call(gateway::kRevoke, gateway::encode_lease(lease), Repeat::never);
  if (!answer) co_return fail(answer.error());
  co_return Status();
}

Task<Result<LeaseState>> GatewayStore::time_to_live(LeaseId lease) {
  CO_TRY(const auto body, co_await impl_->call(gateway::kTimeToLive, gateway::encode_lease(lease),
                                               Repeat::harmless));
  co_return gateway::decode_left(body);
}

Task<Status> GatewayStore::watch(std::string prefix, Revision from,
                                 std::function<bool(WatchBatch)> sink) {
  if (impl_->endpoints.empty())
    co_return fail(Errc::invalid_argument, "no meta store is configured");
  const std::size_t at = impl_->preferred.load();
  const std::string& endpoint = impl_->endpoints[at % impl_->endpoints.size()];
  const std::string body = gateway::encode(gateway::WatchRequest{prefix, prefix_end(prefix), from});
  WatchReader reader(std::move(sink));
  // An endpoint that is cut off is silent, without an error. Other calls notice.
  auto first = co_await first_of(impl_->watch_one(endpoint, body, reader), impl_->left(at));
  if (co_await is_cancelled()) co_return fail(Errc::cancelled, "the watch was cancelled");
  if (first.index() == 1)
    co_return fail(Errc::unavailable, "meta store {}: calls to it fail", endpoint);
  auto ended = std::move(std::get<0>(first));
  if (ended || ended.error().code == Errc::conflict || ended.error().code == Errc::cancelled)
    co_return ended;
  impl_->leave(at);
  const Errc code = ended.error().code;
  const bool final = code == Errc::unsupported || code == Errc::unauthenticated ||
                     code == Errc::forbidden || code == Errc::invalid_argument;
  co_return fail(final ? code : Errc::unavailable, "meta store {}: {}", endpoint,
                 ended.error().message);
}

}  // namespace tarn::cluster
