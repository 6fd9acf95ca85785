#include "tests/conformance/meta_store_checks.h"

#include <chrono>
#include <optional>
#include <stdexcept>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>

namespace tarn::conformance {
namespace {

using namespace cluster;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

/// Term of leases: a thread that is held up for two seconds loses none.
constexpr std::chrono::seconds kTerm{4};
/// Time after which something is taken to hang.
constexpr std::chrono::seconds kGuard{60};

void want(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

template <class T>
T value_of(Result<T> result, const std::string& what) {
  if (!result) throw std::runtime_error(what + ": " + result.error().message);
  return std::move(*result);
}

void ok(const Status& status, const std::string& what) {
  if (!status) throw std::runtime_error(what + ": " + status.error().message);
}

template <class T>
void want_error(const Result<T>& result, Errc code, const std::string& what) {
  want(!result.has_value(), what + ": it succeeded");
  want(result.error().code == code,
       what + ": " + std::string(to_string(result.error().code)) + ", " + result.error().message);
}

Task<void> sleep_for(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(time);
  co_await timer.async_wait(asio::use_awaitable);
}

Task<TransactionResult> commit(MetaStore& store, Transaction transaction) {
  auto done = co_await store.commit(std::move(transaction));
  co_return value_of(std::move(done), "commit");
}

Task<Revision> put(MetaStore& store, std::string key, std::string value, LeaseId lease = 0) {
  Transaction transaction;
  transaction.puts.push_back({std::move(key), std::move(value), lease});
  const auto done = co_await commit(store, std::move(transaction));
  want(done.succeeded, "a put without condition did not succeed");
  co_return done.revision;
}

Task<RangeResult> all_of(MetaStore& store, std::string prefix) {
  RangeRequest request{prefix, prefix_end(prefix), 0};
  auto found = co_await store.range(std::move(request));
  co_return value_of(std::move(found), "range");
}

Task<std::optional<KeyValue>> get(MetaStore& store, std::string key) {
  RangeRequest request{std::move(key), "", 0};
  auto found = value_of(co_await store.range(std::move(request)), "range");
  if (found.items.empty()) co_return std::nullopt;
  co_return std::move(found.items.front());
}

Task<LeaseId> grant(MetaStore& store, std::chrono::seconds ttl) {
  auto lease = co_await store.grant(ttl);
  co_return value_of(std::move(lease), "grant");
}

/// Watches until `count` events have come, at most for a minute; returns them.
Task<std::vector<WatchEvent>> events(MetaStore& store, std::string prefix, Revision from,
                                     std::size_t count) {
  std::vector<WatchEvent> seen;
  const auto sink = [&seen, count](WatchBatch batch) {
    for (WatchEvent& event : batch.events) seen.push_back(std::move(event));
    return seen.size() < count;
  };
  auto ended = co_await (store.watch(prefix, from, sink) || sleep_for(kGuard));
  want(ended.index() == 0, "the watch brought " + std::to_string(seen.size()) + " events, want " +
                               std::to_string(count));
  ok(std::get<0>(ended), "watch");
  co_return seen;
}

Task<void> reads_what_was_put(Subject& s) {
  const std::string key = s.prefix + "a";
  const Revision first = co_await put(s.store, key, "one");
  const Revision second = co_await put(s.store, key, "two");
  want(second > first, "the revision did not grow");
  const auto item = co_await get(s.store, key);
  want(item && item->value == "two" && item->key == key, "the newest value is not read");
  want(item->create_revision == first && item->mod_revision == second, "wrong revisions");
  want(!co_await get(s.store, s.prefix + "b"), "a key that was never put exists");
}

Task<void> ranges_are_sorted(Subject& s) {
  for (const char* name : {"m", "b", "z", "a"}) co_await put(s.store, s.prefix + name, name);
  const auto all = co_await all_of(s.store, s.prefix);
  want(all.items.size() == 4, "not all keys of the prefix");
  std::string order;
  for (const KeyValue& item : all.items) order += item.value;
  want(order == "abmz", "not sorted by key: " + order);
  RangeRequest middle{s.prefix + "b", s.prefix + "z", 0};
  const auto part = value_of(co_await s.store.range(middle), "range");
  want(part.items.size() == 2 && part.items.back().value == "m", "range_end is not exclusive");
  RangeRequest limited{s.prefix, prefix_end(s.prefix), 3};
  const auto three = value_of(co_await s.store.range(limited), "range");
  want(three.items.size() == 3 && three.items.back().value == "m", "limit is not kept");
  want(all.revision >= all.items.back().mod_revision, "the range is older than its items");
}

Task<void> creates_once(Subject& s) {
  Transaction create;
  create.compare.push_back({s.prefix + "k", Compare::What::create_revision, 0});
  create.puts.push_back({s.prefix + "k", "first", 0});
  const auto first = co_await commit(s.store, create);
  create.puts[0].value = "second";
  const auto second = co_await commit(s.store, create);
  want(first.succeeded && !second.succeeded, "a key was created twice");
  want((co_await get(s.store, s.prefix + "k"))->value == "first", "the loser wrote");
  create.compare[0] = {s.prefix + "k", Compare::What::create_revision, first.revision};
  const auto same = co_await commit(s.store, create);
  want(same.succeeded, "the create revision does not compare equal");
}

Task<void> swaps_once(Subject& s) {
  const std::string key = s.prefix + "k";
  const Revision base = co_await put(s.store, key, "0");
  Transaction swap;
  swap.compare.push_back({key, Compare::What::mod_revision, base});
  swap.puts.push_back({key, "1", 0});
  const auto first = co_await commit(s.store, swap);
  const auto second = co_await commit(s.store, swap);
  want(first.succeeded && !second.succeeded, "two swaps from one revision won");
  want(first.revision == (co_await get(s.store, key))->mod_revision, "wrong revision reported");
}

Task<void> writes_all_or_nothing(Subject& s) {
  const Revision base = co_await put(s.store, s.prefix + "a", "0");
  Transaction many;
  many.compare.push_back({s.prefix + "a", Compare::What::mod_revision, base});
  many.compare.push_back({s.prefix + "b", Compare::What::mod_revision, 0});
  many.puts.push_back({s.prefix + "a", "1", 0});
  many.puts.push_back({s.prefix + "b", "1", 0});
  many.deletes.push_back({s.prefix + "c", ""});
  const auto done = co_await commit(s.store, many);
  want(done.succeeded, "all conditions hold and nothing was done");
  const auto items = (co_await all_of(s.store, s.prefix)).items;
  want(items.size() == 2 && items[0].mod_revision == items[1].mod_revision,
       "the keys of one transaction have different revisions");
  many.compare[0].revision = items[0].mod_revision;  // the other condition does not hold now
  many.puts[0].value = many.puts[1].value = "2";
  const auto lost = co_await commit(s.store, many);
  want(!lost.succeeded, "a transaction was done although a condition does not hold");
  for (const KeyValue& item : (co_await all_of(s.store, s.prefix)).items)
    want(item.value == "1", "a transaction that lost wrote key " + item.key);
}

Task<void> refuses_double_puts(Subject& s) {
  Transaction twice;
  twice.puts.push_back({s.prefix + "a", "1", 0});
  twice.puts.push_back({s.prefix + "a", "2", 0});
  want_error(co_await s.store.commit(twice), Errc::invalid_argument, "two puts of one key");
  want(!co_await get(s.store, s.prefix + "a"), "a refused transaction wrote");
}

Task<void> deletes_ranges(Subject& s) {
  for (const char* name : {"a", "b", "c"}) co_await put(s.store, s.prefix + name, "");
  Transaction some;
  some.deletes.push_back({s.prefix + "a", s.prefix + "c"});
  co_await commit(s.store, some);
  const auto left = (co_await all_of(s.store, s.prefix)).items;
  want(left.size() == 1 && left[0].key == s.prefix + "c", "the wrong keys were deleted");
  const auto again = co_await commit(s.store, some);
  want(again.succeeded, "deleting nothing is an error");
  const Revision created = co_await put(s.store, s.prefix + "a", "");
  want((co_await get(s.store, s.prefix + "a"))->create_revision == created,
       "a key made anew has its old create revision");
}

Task<void> keeps_any_bytes(Subject& s) {
  std::string bytes;
  for (int i = 0; i < 512 * 1024; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  const std::string key = s.prefix + std::string("\0\xff \xe4", 4);
  co_await put(s.store, key, bytes);
  const auto item = co_await get(s.store, key);
  want(item && item->key == key && item->value == bytes, "not the bytes that were put");
  co_await put(s.store, s.prefix + "empty", "");
  const auto empty = co_await get(s.store, s.prefix + "empty");
  want(empty && empty->value.empty(), "an empty value is none");
}

Task<void> counts_exactly(Subject& s) {
  const std::string key = s.prefix + "counter";
  co_await put(s.store, key, "0");
  constexpr int kWriters = 6;
  constexpr int kRounds = 10;
  const auto writer = [](MetaStore& store, std::string name) -> Task<void> {
    for (int done = 0; done < kRounds;) {
      const auto now = co_await get(store, name);
      Transaction add;
      add.compare.push_back({name, Compare::What::mod_revision, now->mod_revision});
      add.puts.push_back({name, std::to_string(std::stoi(now->value) + 1), 0});
      const auto result = co_await commit(store, std::move(add));
      if (result.succeeded) ++done;
    }
  };
  auto executor = co_await asio::this_coro::executor;
  std::vector<decltype(asio::co_spawn(executor, writer(s.store, key), asio::deferred))> all;
  all.reserve(kWriters);
  for (int i = 0; i < kWriters; ++i)
    all.push_back(asio::co_spawn(executor, writer(s.store, key), asio::deferred));
  auto [order, failures] = co_await asio::experimental::make_parallel_group(std::move(all))
                               .async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  const auto end = co_await get(s.store, key);
  want(end->value == std::to_string(kWriters * kRounds), "increments were lost: " + end->value);
}

Task<void> leases_expire(Subject& s) {
  const auto begun = std::chrono::steady_clock::now();
  const LeaseId lease = co_await grant(s.store, kTerm);
  co_await put(s.store, s.prefix + "mine", "x", lease);
  const auto held = co_await get(s.store, s.prefix + "mine");
  want(held && held->lease == lease, "the key does not name its lease");
  while (co_await get(s.store, s.prefix + "mine")) {
    want(std::chrono::steady_clock::now() - begun < kGuard, "the lease never ended");
    co_await sleep_for(100ms);
  }
  want(std::chrono::steady_clock::now() - begun > kTerm - 100ms, "the lease ended before its time");
  want_error(co_await s.store.keep_alive(lease), Errc::not_found, "renewal of an ended lease");
  want_error(co_await s.store.time_to_live(lease), Errc::not_found, "look at an ended lease");
  Transaction late;
  late.puts.push_back({s.prefix + "late", "x", lease});
  want_error(co_await s.store.commit(late), Errc::not_found, "put under an ended lease");
}

Task<void> leases_are_renewed(Subject& s) {
  const LeaseId lease = co_await grant(s.store, kTerm);
  co_await put(s.store, s.prefix + "mine", "x", lease);
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < kTerm + 2s) {
    co_await sleep_for(500ms);
    const auto left = value_of(co_await s.store.keep_alive(lease), "keep_alive");
    want(left == kTerm, "the renewed lease has not its whole term");
  }
  want((co_await get(s.store, s.prefix + "mine")).has_value(), "a renewed lease ended");
  ok(co_await s.store.revoke(lease), "revoke");
}

Task<void> leases_are_revoked(Subject& s) {
  const LeaseId lease = co_await grant(s.store, 60s);
  const LeaseId other = co_await grant(s.store, 60s);
  co_await put(s.store, s.prefix + "goes", "x", lease);
  co_await put(s.store, s.prefix + "moved", "x", lease);
  co_await put(s.store, s.prefix + "freed", "x", lease);
  co_await put(s.store, s.prefix + "moved", "y", other);
  co_await put(s.store, s.prefix + "freed", "y");
  const auto state = value_of(co_await s.store.time_to_live(lease), "time_to_live");
  want(state.keys == std::vector<std::string>{s.prefix + "goes"}, "wrong keys under the lease");
  want(state.granted == 60s && state.left > 50s, "wrong times");
  ok(co_await s.store.revoke(lease), "revoke");
  want(!co_await get(s.store, s.prefix + "goes"), "a key outlived its lease");
  want((co_await get(s.store, s.prefix + "moved")).has_value(), "a key went with its old lease");
  want((co_await get(s.store, s.prefix + "freed")).has_value(),
       "a key went with no lease of its own");
  want_error(co_await s.store.revoke(lease), Errc::not_found, "a lease revoked twice");
  ok(co_await s.store.revoke(other), "revoke");
}

Task<void> watches_tell_in_order(Subject& s) {
  const Revision before = co_await put(s.store, s.prefix + "w/before", "0");
  co_await put(s.store, s.prefix + "w/a", "1");
  co_await put(s.store, s.prefix + "other", "x");
  const Revision second = co_await put(s.store, s.prefix + "w/a", "2");
  Transaction gone;
  gone.deletes.push_back({s.prefix + "w/a", ""});
  const auto deleted = co_await commit(s.store, gone);
  const auto seen = co_await events(s.store, s.prefix + "w/", before + 1, 3);
  want(seen.size() == 3, "want 3 events, got " + std::to_string(seen.size()));
  want(seen[0].item.value == "1" && seen[1].item.value == "2", "out of order");
  want(seen[1].item.mod_revision == second, "wrong revision of a put");
  want(seen[2].type == WatchEvent::Type::del && seen[2].item.key == s.prefix + "w/a" &&
           seen[2].item.mod_revision == deleted.revision,
       "wrong event for the delete");
}

Task<void> watches_follow(Subject& s) {
  const Revision now = (co_await all_of(s.store, s.prefix)).revision;
  const auto writer = [](Subject& subject) -> Task<void> {
    for (int i = 0; i < 20; ++i) {
      co_await sleep_for(20ms);
      co_await put(subject.store, subject.prefix + "w", std::to_string(i));
    }
  };
  const auto seen = co_await (events(s.store, s.prefix + "w", now + 1, 20) && writer(s));
  want(seen.size() == 20, "want 20 events, got " + std::to_string(seen.size()));
  for (std::size_t i = 0; i < seen.size(); ++i)
    want(seen[i].item.value == std::to_string(i), "event " + std::to_string(i) + " is another one");
}

Task<void> watches_see_leases_end(Subject& s) {
  const LeaseId lease = co_await grant(s.store, kTerm);
  const Revision put_at = co_await put(s.store, s.prefix + "live", "x", lease);
  const auto seen = co_await events(s.store, s.prefix, put_at + 1, 1);
  want(seen[0].type == WatchEvent::Type::del && seen[0].item.key == s.prefix + "live",
       "the end of the lease is not told as a delete");
}

Task<void> watches_are_cancelled(Subject& s) {
  const auto sink = [](const WatchBatch&) { return true; };
  for (int i = 0; i < 3; ++i) co_await (s.store.watch(s.prefix, 0, sink) || sleep_for(50ms));
}

/// Asio has one setting for a task and all that it awaits: a store that changed it would keep its
/// callers from ending.
Task<void> callers_end_when_cancelled(Subject& s) {
  (void)co_await s.store.range({s.prefix + "none", "", 0});
  want(co_await asio::this_coro::throw_if_cancelled(), "not after range");
  co_await put(s.store, s.prefix + "a", "");
  want(co_await asio::this_coro::throw_if_cancelled(), "not after commit");
  const LeaseId lease = value_of(co_await s.store.grant(5s), "grant");
  want(co_await asio::this_coro::throw_if_cancelled(), "not after grant");
  (void)co_await s.store.keep_alive(lease);
  want(co_await asio::this_coro::throw_if_cancelled(), "not after keep_alive");
  (void)co_await s.store.time_to_live(lease);
  want(co_await asio::this_coro::throw_if_cancelled(), "not after time_to_live");
  (void)co_await s.store.revoke(lease);
  want(co_await asio::this_coro::throw_if_cancelled(), "not after revoke");
}

Task<void> old_watches_resynchronise(Subject& s) {
  const Revision first = co_await put(s.store, s.prefix + "k", "1");
  const Revision last = co_await put(s.store, s.prefix + "k", "2");
  co_await s.compact(last);
  const auto sink = [](const WatchBatch&) { return true; };
  auto ended = co_await (s.store.watch(s.prefix, first, sink) || sleep_for(kGuard));
  want(ended.index() == 0, "a watch from a forgotten revision hangs");
  want_error(std::get<0>(ended), Errc::conflict, "a watch from a forgotten revision");
  const auto all = co_await all_of(s.store, s.prefix);
  const Revision next = co_await put(s.store, s.prefix + "k", "3");
  const auto seen = co_await events(s.store, s.prefix, all.revision + 1, 1);
  want(seen[0].item.mod_revision == next, "after the new range a change was missed");
}

}  // namespace

Task<void> compact_by_writing(MetaStore& store, std::string prefix, std::size_t count) {
  constexpr std::size_t kPutsMax = 100;  // etcd takes 128 operations a transaction
  for (std::size_t written = 0; written < count; written += kPutsMax) {
    Transaction many;
    for (std::size_t i = 0; i < kPutsMax; ++i)
      many.puts.push_back({prefix + "filler/" + std::to_string(i), "", 0});
    co_await commit(store, std::move(many));
  }
}

const std::vector<Check>& meta_store_checks() {
  static const std::vector<Check> checks{
      {"a key that was put is read, with its revisions", reads_what_was_put},
      {"a range is sorted, ends before range_end and keeps its limit", ranges_are_sorted},
      {"create-if-absent is done once", creates_once},
      {"of two swaps from one revision one wins", swaps_once},
      {"a transaction writes all of its keys at one revision, or none", writes_all_or_nothing},
      {"a transaction that puts a key twice is refused", refuses_double_puts},
      {"a delete takes a range", deletes_ranges},
      {"keys and values are any bytes", keeps_any_bytes},
      {"a counter raised by many loses nothing", counts_exactly},
      {"a lease that is not renewed takes its keys with it", leases_expire},
      {"a renewed lease lives on", leases_are_renewed},
      {"a revoked lease takes its own keys only", leases_are_revoked},
      {"a watch from the past tells what happened, in order", watches_tell_in_order},
      {"a watch tells what happens", watches_follow},
      {"a watch sees leases end", watches_see_leases_end},
      {"a watch can be cancelled", watches_are_cancelled},
      {"a caller can still be cancelled", callers_end_when_cancelled},
      {"a watch from a forgotten revision says so", old_watches_resynchronise},
  };
  return checks;
}

}  // namespace tarn::conformance
