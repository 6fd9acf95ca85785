#include <optional>

#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/local_address.h"
#include "common/cluster/node/announced.h"
#include "common/cluster/store/embedded_store.h"
#include "common/cluster/store/gateway_json.h"
#include "common/cluster/store/gateway_store.h"
#include "common/cluster/store/meta_model.h"
#include "common/http/node_auth_filter.h"
#include "common/http/router.h"
#include "common/http/server.h"
#include "proxy/watch/meta_gateway.h"
#include "tests/conformance/meta_store_checks.h"
#include "tests/unit/run_task.h"

namespace tarn::cluster {
namespace gateway_test {

using namespace std::chrono_literals;
using nlohmann::json;
using test::eventually;
using test::fastest;
using test::TaskRunner;
using test::TemporaryDirectory;

TEST_CASE("Gateway: requests are those of etcd's transcript", "[cluster][gateway]") {
  CHECK(json::parse(gateway::encode(RangeRequest{"/os/", "/os0", 10})) ==
        json::parse(R"({"key":"L29zLw==","range_end":"L29zMA==","limit":"10"})"));
  Transaction swap;
  swap.compare.push_back({"/os/map", Compare::What::mod_revision, 2});
  swap.compare.push_back({"/os/new", Compare::What::create_revision, 0});
  swap.puts.push_back({"/os/map", "v2", 7});
  swap.deletes.push_back({"/os/", "/os0"});
  CHECK(json::parse(gateway::encode(swap)) == json::parse(R"({
    "compare":[{"key":"L29zL21hcA==","target":"MOD","result":"EQUAL","mod_revision":"2"},
               {"key":"L29zL25ldw==","target":"CREATE","result":"EQUAL","create_revision":"0"}],
    "success":[{"request_put":{"key":"L29zL21hcA==","value":"djI=","lease":"7"}},
               {"request_delete_range":{"key":"L29zLw==","range_end":"L29zMA=="}}]})"));
  const auto read = gateway::decode_transaction(gateway::encode(swap)).value();
  CHECK(gateway::encode(read) == gateway::encode(swap));
}

TEST_CASE("Gateway: answers of etcd are read, zero values left out", "[cluster][gateway]") {
  const auto range = gateway::decode_range_result(
      R"({"header":{"cluster_id":"1","revision":"5"},"kvs":[{"key":"L29zL21hcA==","create_revision":"2",)"
      R"("mod_revision":"3","version":"1","value":"djE=","lease":"9"}],"count":"1"})");
  REQUIRE(range);
  CHECK(range->revision == 5);
  CHECK(range->items.at(0).key == "/os/map");
  CHECK(range->items.at(0).value == "v1");
  CHECK(range->items.at(0).create_revision == 2);
  CHECK(range->items.at(0).mod_revision == 3);
  CHECK(range->items.at(0).lease == 9);
  CHECK(gateway::decode_range_result(R"({"header":{"revision":"5"}})")->items.empty());
  CHECK(gateway::decode_transaction_result(R"({"header":{"revision":"3"},"succeeded":true})")
            ->succeeded);
  CHECK_FALSE(gateway::decode_transaction_result(R"({"header":{"revision":"3"}})")->succeeded);
  CHECK(gateway::decode_granted(R"({"ID":"2324035510324639502","TTL":"5"})") ==
        2324035510324639502);
  CHECK(gateway::decode_kept(R"({"result":{"ID":"1","TTL":"4"}})") == 4s);
  CHECK(gateway::decode_kept(R"({"result":{"ID":"1"}})").error().code == Errc::not_found);
  CHECK(gateway::decode_left(R"({"ID":"1","TTL":"-1"})").error().code == Errc::not_found);
  CHECK(gateway::decode_left(R"({"TTL":"2","grantedTTL":"4","keys":["YQ=="]})")->keys ==
        std::vector<std::string>{"a"});
  CHECK(gateway::decode_range_result("<html>").error().code == Errc::corrupt);
  CHECK(gateway::decode_range_result(R"({"header":{"revision":"x"}})").error().code ==
        Errc::corrupt);
}

TEST_CASE("Gateway: lines of a watch", "[cluster][gateway]") {
  CHECK(gateway::decode_watch_line(R"({"result":{"header":{"revision":"8"},"created":true}})")
            ->events.empty());
  const auto batch = gateway::decode_watch_line(
      R"({"result":{"header":{"revision":"9"},"events":[{"kv":{"key":"YQ==","mod_revision":"8","value":"MQ=="}},)"
      R"({"type":"DELETE","kv":{"key":"YQ==","mod_revision":"9"},"prev_kv":{}}]}})");
  REQUIRE(batch);
  CHECK(batch->revision == 9);
  CHECK(batch->events.at(0).type == WatchEvent::Type::put);
  CHECK(batch->events.at(0).item.value == "1");
  CHECK(batch->events.at(1).type == WatchEvent::Type::del);
  CHECK(gateway::decode_watch_line(R"({"result":{"canceled":true,"compact_revision":"9"}})")
            .error()
            .code == Errc::conflict);
  CHECK(gateway::decode_watch_line(R"({"result":{"canceled":true}})").error().code ==
        Errc::unavailable);
  CHECK(gateway::decode_watch_line(R"({"error":{"grpc_code":14}})").error().code ==
        Errc::unavailable);
  const auto again = gateway::decode_watch_line(gateway::encode_watch_batch(*batch)).value();
  CHECK(gateway::encode_watch_batch(again) == gateway::encode_watch_batch(*batch));
  CHECK(gateway::decode_watch_line(gateway::encode_watch_compacted(4)).error().code ==
        Errc::conflict);
  CHECK(gateway::decode_watch_line(gateway::encode_watch_progress(4))->revision == 4);
}

TEST_CASE("Gateway: what the embedded store does not do is refused by name", "[cluster][gateway]") {
  const auto code = [](const char* body) { return gateway::decode_transaction(body).error().code; };
  CHECK(code(R"({"compare":[{"key":"YQ==","target":"VALUE","value":"YQ=="}]})") ==
        Errc::unsupported);
  CHECK(code(R"({"compare":[{"key":"YQ==","target":"MOD","result":"GREATER"}]})") ==
        Errc::unsupported);
  CHECK(code(R"({"failure":[{"request_range":{"key":"YQ=="}}]})") == Errc::unsupported);
  CHECK(code(R"({"success":[{"request_range":{"key":"YQ=="}}]})") == Errc::unsupported);
  CHECK(code(R"({"success":[{"request_put":{"key":"?"}}]})") == Errc::invalid_argument);
  CHECK(code(R"({"success":[{"request_put":{}}]})") == Errc::invalid_argument);
  CHECK(code(R"({"success":7})") == Errc::invalid_argument);
  CHECK(code("[") == Errc::invalid_argument);
  CHECK(gateway::decode_transaction(
            R"({"compare":[{"key":"YQ==","target":"CREATE","createRevision":"4"}],)"
            R"("success":[{"requestPut":{"key":"YQ==","value":"YQ=="}}]})")
            ->compare.at(0)
            .revision == 4);
  CHECK(gateway::decode_range(R"({"key":"YQ==","revision":"3"})").error().code ==
        Errc::unsupported);
  CHECK(gateway::decode_grant(R"({"TTL":5})") == 5s);
}

TEST_CASE("Gateway: errors keep their meaning on the way", "[cluster][gateway]") {
  for (const Errc code :
       {Errc::invalid_argument, Errc::not_found, Errc::forbidden, Errc::unsupported,
        Errc::unavailable, Errc::corrupt, Errc::unauthenticated})
    CHECK(gateway::decode_error(500, gateway::encode(Error{code, "why"})).code == code);
  CHECK(gateway::decode_error(404, "no such page").code == Errc::unavailable);
  CHECK(gateway::decode_error(401, "").code == Errc::unauthenticated);
  CHECK(gateway::decode_error(500, R"({"error":"context deadline exceeded","code":2})").code ==
        Errc::unavailable);
}

TEST_CASE("Addresses of this machine are told from others", "[base]") {
  for (const char* text :
       {"127.0.0.1", "127.0.0.1:51234", "127.1.2.3:1", "[::1]:80", "::1", "[::ffff:127.0.0.1]:9"})
    CHECK(is_local_address(text));
  for (const char* text : {"", "localhost:80", "192.0.2.7", "192.0.2.7:80", "[2001:db8::1]:80",
                           "[::ffff:192.0.2.7]:9", "[::1"})
    CHECK_FALSE(is_local_address(text));
}

TEST_CASE("An IPv6 address stands in brackets before a port", "[base]") {
  CHECK(authority_text("10.0.0.5", 80) == "10.0.0.5:80");
  CHECK(authority_text("::1", 65535) == "[::1]:65535");
  CHECK(authority_text("a.example", 1) == "a.example:1");
}

TEST_CASE("What a node announces is what others can call", "[cluster]") {
  CHECK(find_remote_peer({}).url.empty());
  CHECK(find_remote_peer({"http://127.0.0.1:2379", "http://[::1]:2379", "no URL"}).url.empty());
  Node node;
  node.public_url = "http://10.0.0.5:8080";
  node.internal_url = "http://[fd00::5]:8180";
  CHECK(check_announced(node, {}));
  for (const char* text :
       {"http://0.0.0.0:8080", "http://[::]:8080", "10.0.0.5:8080", "http://::1:80"}) {
    node.public_url = text;
    const auto refused = check_announced(node, {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::invalid_argument);
  }
}

/// An embedded store served by an internal listener, as a proxy has it, and a client of it.
struct Gateway {
  explicit Gateway(const std::filesystem::path& directory)
      : store(EmbeddedStore::open(directory, system_clock()).value()),
        router(proxy::meta_gateway_routes(*store)),
        server(run.loops(), options()),
        remote(client, {"http://127.0.0.1:1", start()}, signing()) {}
  ~Gateway() {
    store->end_watches();
    server.stop(60s);
    run(close_idle());
  }

  http::Server::Options options() {
    http::Server::Options out;
    out.name = "internal";
    out.address = "127.0.0.1:0";
    out.node = "p[test]";
    out.handler =
        http::authenticated(auth, [this](http::Exchange& exchange) { return router(exchange); });
    return out;
  }
  std::string start() {
    REQUIRE(server.start());
    return server.url();
  }
  GatewayStore::Sign signing() {
    return [this](http::ClientRequest& request) {
      request.fields.push_back({std::string(security::NodeAuth::kHeader),
                                caller.sign(http::to_string(request.method), request.target)});
    };
  }
  Task<void> close_idle() {
    client.close_idle();
    co_return;
  }
  Result<http::ClientResponse> post(const std::string& path, std::string body,
                                    const security::NodeAuth& as) {
    http::ClientRequest request;
    request.method = http::Method::post;
    request.target = path;
    request.body = std::move(body);
    request.fields.push_back({std::string(security::NodeAuth::kHeader), as.sign("POST", path)});
    return run(client.call(http::parse_url(server.url()).value(), request));
  }

  TaskRunner run;
  security::NodeAuth auth{"key", "prxAAAA1", system_clock()};
  security::NodeAuth caller{"key", "tgtAAAA1", system_clock()};
  std::unique_ptr<EmbeddedStore> store;
  http::Router router;
  http::Server server;
  http::Client client;
  GatewayStore remote;  // its first endpoint is dead: every call has to find the second
};

TEST_CASE("Gateway: the embedded store keeps through it what Tarn builds on",
          "[cluster][gateway]") {
  const TemporaryDirectory directory;
  Gateway gateway(directory.path());
  int number = 0;
  for (const auto& check : conformance::meta_store_checks()) {
    if (check.name.find("lease") != std::string_view::npos) continue;
    const std::string prefix = "/check/" + std::to_string(++number) + "/";
    conformance::Subject subject{gateway.remote, prefix, {}};
    subject.compact = [&](Revision) {
      return conformance::compact_by_writing(*gateway.store, prefix,
                                             MetaModel::kHistoryEventsMax + 1);
    };
    INFO(check.name);
    CHECK_NOTHROW(gateway.run(check.run(subject)));
  }
}

TEST_CASE("Gateway: leases", "[cluster][gateway]") {
  const TemporaryDirectory directory;
  Gateway gateway(directory.path());
  const LeaseId lease = gateway.run(gateway.remote.grant(30s)).value();
  Transaction put;
  put.puts.push_back({"live", "x", lease});
  REQUIRE(gateway.run(gateway.remote.commit(put)));
  CHECK(gateway.run(gateway.remote.keep_alive(lease)) == 30s);
  CHECK(gateway.run(gateway.remote.time_to_live(lease))->keys == std::vector<std::string>{"live"});
  REQUIRE(gateway.run(gateway.remote.revoke(lease)));
  CHECK(gateway.run(gateway.remote.revoke(lease)).error().code == Errc::not_found);
  CHECK(gateway.run(gateway.remote.keep_alive(lease)).error().code == Errc::not_found);
  CHECK(gateway.run(gateway.remote.time_to_live(lease)).error().code == Errc::not_found);
  CHECK(gateway.run(gateway.remote.commit(put)).error().code == Errc::not_found);
  CHECK(gateway.run(gateway.remote.range({"live", "", 0}))->items.empty());
}

TEST_CASE("Gateway: only nodes of the cluster are served", "[cluster][gateway]") {
  const TemporaryDirectory directory;
  Gateway gateway(directory.path());
  const security::NodeAuth stranger("other key", "tgtAAAA1", system_clock());
  const auto refused = gateway.post("/v3/kv/range", R"({"key":"YQ=="})", stranger);
  REQUIRE(refused);
  CHECK(refused->status == 401);
  const auto served = gateway.post("/v3/kv/range", R"({"key":"YQ=="})", gateway.caller);
  REQUIRE(served);
  CHECK(served->status == 200);
  GatewayStore unsigned_store(gateway.client, {gateway.server.url()}, {});
  CHECK(gateway.run(unsigned_store.range({"a", "", 0})).error().code == Errc::unauthenticated);
}

TEST_CASE("Gateway: put and deleterange, and errors with gRPC's codes", "[cluster][gateway]") {
  const TemporaryDirectory directory;
  Gateway gateway(directory.path());
  const auto status = [&](const char* path, const char* body) {
    return gateway.post(path, body, gateway.caller)->status;
  };
  CHECK(status("/v3/kv/put", R"({"key":"YQ==","value":"MQ=="})") == 200);
  CHECK(gateway.run(gateway.remote.range({"a", "", 0}))->items.at(0).value == "1");
  CHECK(status("/v3/kv/deleterange", R"({"key":"YQ=="})") == 200);
  CHECK(gateway.run(gateway.remote.range({"a", "", 0}))->items.empty());
  const auto bad = gateway.post("/v3/kv/put", R"({"key":"???"})", gateway.caller).value();
  CHECK(bad.status == 400);
  CHECK(json::parse(bad.body)["code"] == 3);
  const auto dead =
      gateway.post("/v3/kv/put", R"({"key":"YQ==","lease":"5"})", gateway.caller).value();
  CHECK(dead.status == 404);
  CHECK(json::parse(dead.body)["code"] == 5);
  CHECK(status("/v3/kv/compaction", "{}") == 404);
  CHECK(status("/v3/watch", R"({"create_request":{"key":"YQ==","range_end":"eg=="}})") == 501);
}

TEST_CASE("Gateway: a store that is away is unavailable, soon", "[cluster][gateway]") {
  TaskRunner run;
  http::Client client;
  GatewayStore nobody(client, {"http://127.0.0.1:1", "http://127.0.0.1:2"}, {});
  const auto took = fastest(3s, [&] {
    CHECK(run(nobody.range({"a", "", 0})).error().code == Errc::unavailable);
    CHECK(run(nobody.commit({})).error().code == Errc::unavailable);
    CHECK(run(nobody.watch("a", 1, [](const WatchBatch&) { return true; })).error().code ==
          Errc::unavailable);
  });
  CHECK(took < 3s);
}

TEST_CASE("Gateway: a watch ends when the store ends its watches", "[cluster][gateway]") {
  const TemporaryDirectory directory;
  Gateway gateway(directory.path());
  REQUIRE(gateway.run(gateway.remote.range({"a", "", 0})));  // finds the endpoint that lives
  auto watching = asio::co_spawn(
      gateway.run.executor(),
      gateway.remote.watch("a", 1000, [](const WatchBatch&) { return true; }), asio::use_future);
  CHECK(watching.wait_for(200ms) == std::future_status::timeout);
  gateway.store->end_watches();
  REQUIRE(watching.wait_for(60s) == std::future_status::ready);
  CHECK(watching.get().error().code == Errc::unavailable);
}

/// Takes connections, since the kernel does, and never says a word.
struct Silent {
  asio::io_context unused;
  asio::ip::tcp::acceptor acceptor{unused, {asio::ip::address_v4::loopback(), 0}};
  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  }
};

TEST_CASE("Gateway: an endpoint that is cut off costs a second, and a change its outcome",
          "[cluster][gateway]") {
  const TemporaryDirectory directory;
  Gateway gateway(directory.path());
  const LeaseId lease = gateway.run(gateway.remote.grant(30s)).value();
  Silent silent;
  Silent other;
  std::optional<GatewayStore> store;
  const auto first = fastest(3500ms, [&] {
    store.emplace(gateway.client, std::vector{silent.url(), other.url(), gateway.server.url()},
                  gateway.signing());
    // Sent to one only. A call that asks others meanwhile finds out that this one is cut off.
    Transaction put;
    put.puts.push_back({"a", "x", 0});
    auto change =
        asio::co_spawn(gateway.run.executor(), store->commit(std::move(put)), asio::use_future);
    const auto begun = std::chrono::steady_clock::now();
    CHECK(gateway.run(store->keep_alive(lease)) == 30s);
    CHECK(std::chrono::steady_clock::now() - begun > 1900ms);
    REQUIRE(change.wait_for(60s) == std::future_status::ready);
    CHECK(change.get().error().code == Errc::unavailable);
  });
  CHECK(first < 3500ms);
  // The next calls know; at worst they pay for one of the two once more.
  CHECK(gateway.run(store->range({"a", "", 0})));
  CHECK(fastest(500ms, [&] { CHECK(gateway.run(store->range({"a", "", 0}))); }) < 500ms);
  const auto in_vain = fastest(4500ms, [&] {
    GatewayStore nobody(gateway.client, {silent.url(), other.url()}, gateway.signing());
    CHECK(gateway.run(nobody.range({"a", "", 0})).error().code == Errc::unavailable);
  });
  CHECK(in_vain < 4500ms);
}

TEST_CASE("Gateway: a watch leaves an endpoint that is cut off", "[cluster][gateway]") {
  const TemporaryDirectory directory;
  Gateway gateway(directory.path());
  Silent silent;
  GatewayStore store(gateway.client, {silent.url(), gateway.server.url()}, gateway.signing());
  auto watching =
      asio::co_spawn(gateway.run.executor(),
                     store.watch("a", 2, [](const WatchBatch&) { return true; }), asio::use_future);
  CHECK(watching.wait_for(200ms) == std::future_status::timeout);
  REQUIRE(gateway.run(store.range({"a", "", 0})));  // finds the other one, after a while
  REQUIRE(watching.wait_for(60s) == std::future_status::ready);
  CHECK(watching.get().error().code == Errc::unavailable);
  // The next watch is where calls are answered.
  auto next = asio::co_spawn(gateway.run.executor(),
                             store.watch("a", 2, [](const WatchBatch&) { return false; }),
                             asio::use_future);
  Transaction put;
  put.puts.push_back({"a", "x", 0});
  REQUIRE(gateway.run(store.commit(put)));
  REQUIRE(next.wait_for(60s) == std::future_status::ready);
  const auto ended = next.get();
  INFO((ended ? std::string() : ended.error().message));
  CHECK(ended);
}

}  // namespace gateway_test
}  // namespace tarn::cluster
