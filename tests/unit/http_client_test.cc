#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "common/http/client.h"
#include "common/http/loops.h"
#include "common/http/server.h"
#include "tests/unit/raw_server.h"
#include "tests/unit/run_task.h"

namespace tarn::http {
namespace http_client_test {

using test::RawPeer;
using test::RawServer;
using namespace std::chrono_literals;

constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// One loop, and the result of a coroutine run on it.
class OnLoop {
 public:
  template <class T>
  T operator()(Task<T> task) {
    return asio::co_spawn(loops_.at(0).executor(), std::move(task), asio::use_future).get();
  }
  Loop& loop() { return loops_.at(0); }
  Loops& loops() { return loops_; }

 private:
  Loops loops_{1};
};

Url url_of(const RawServer& server) { return parse_url(server.url()).value(); }

ClientRequest request(Method method, std::string body = {}) {
  return {method, "/x", {}, std::move(body)};
}

template <class T>
Errc code_of(const Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  INFO(result.error().message);
  return result.error().code;
}

Task<Result<std::string>> read_rest(ClientStream& stream, std::size_t buffer_bytes) {
  std::string out;
  std::string buffer(buffer_bytes, '\0');
  while (true) {
    CO_TRY(const std::size_t got,
           co_await stream.read_some(std::as_writable_bytes(std::span(buffer))));
    if (got == 0) co_return out;
    out.append(buffer, 0, got);
  }
}

Task<Status> write_text(ClientStream& stream, std::string_view text) {
  const Status written = co_await stream.write(std::as_bytes(std::span(text)));
  co_return written;
}

TEST_CASE("URLs are taken apart strictly", "[http][client]") {
  const auto url = parse_url("http://Example.org:8080/a/b?c=d#e");
  REQUIRE(url.has_value());
  CHECK(url->host == "Example.org");
  CHECK(url->port == 8080);
  CHECK(url->path == "/a/b?c=d");
  CHECK(url->authority() == "Example.org:8080");
  CHECK(parse_url("HTTP://h")->port == 80);
  CHECK(parse_url("http://h")->path == "/");
  CHECK(parse_url("http://h?x=1")->path == "/?x=1");
  const auto six = parse_url("http://[fe80::1]:99/x");
  REQUIRE(six.has_value());
  CHECK(six->host == "fe80::1");
  CHECK(six->authority() == "[fe80::1]:99");
  for (const char* bad :
       {"", "h:80", "https://h", "http://", "http:///x", "http://h:", "http://h:0",
        "http://h:65536", "http://h:8o", "http://[::1", "http://[::1]x", "http://u@h",
        "http://a b/", "http://h/a b", "http://h/\r\nX: y", "http://::1/"}) {
    INFO(bad);
    CHECK(code_of(parse_url(bad)) == Errc::invalid_argument);
  }
}

TEST_CASE("a call sends one well-formed head and reads the answer", "[http][client]") {
  std::string seen;
  RawServer server({[&](RawPeer& peer) {
    seen = peer.read_head() + peer.read_bytes(5);
    peer.send("HTTP/1.1 201 Made\r\nContent-Length: 3\r\nX-A: b\r\n\r\nyes");
  }});
  OnLoop run;
  Client client;
  ClientRequest post = request(Method::post, "hello");
  post.fields = {{"X-Test", "1"}};
  const auto answer = run(client.call(url_of(server), post));
  REQUIRE(answer.has_value());
  CHECK(answer->status == 201);
  CHECK(answer->field("x-a") == "b");
  CHECK(answer->body == "yes");
  server.join();
  CHECK(seen == "POST /x HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server.port()) +
                    "\r\nUser-Agent: Tarn/" TARN_VERSION
                    "\r\nX-Test: 1\r\nContent-Length: 5\r\n\r\n"
                    "hello");
}

TEST_CASE("methods without a body announce none, PUT and POST a length of 0", "[http][client]") {
  std::string get;
  std::string put;
  RawServer server({[&](RawPeer& peer) {
    get = peer.read_head();
    peer.send(kOk);
    put = peer.read_head();
    peer.send(kOk);
  }});
  OnLoop run;
  Client client;
  CHECK(run(client.call(url_of(server), request(Method::get))).has_value());
  CHECK(run(client.call(url_of(server), request(Method::put))).has_value());
  server.join();
  CHECK(get.find("Content-Length") == std::string::npos);
  CHECK(get.find("Transfer-Encoding") == std::string::npos);
  CHECK(put.find("\r\nContent-Length: 0\r\n") != std::string::npos);
}

TEST_CASE("chunked answers are read whatever their chunks", "[http][client]") {
  const auto serve = [](RawPeer& peer) {
    peer.read_head();
    for (const char c : std::string_view("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                         "5\r\nhello\r\n1;ext=1\r\n \r\n5\r\nworld\r\n0\r\n"
                                         "X-Trailer: t\r\n\r\n"))
      peer.send(std::string_view(&c, 1));
    peer.read_head();
    peer.send(kOk);
  };
  RawServer server({serve});
  OnLoop run;
  Client client;
  const auto answer = run(client.call(url_of(server), request(Method::get)));
  REQUIRE(answer.has_value());
  CHECK(answer->body == "hello world");
  CHECK(run(client.call(url_of(server), request(Method::get)))->body == "ok");
  server.join();
  CHECK(server.accepted() == 1);
}

TEST_CASE("an answer that is cut short is never an end", "[http][client]") {
  const struct {
    const char* text;
    Errc code;
  } rows[] = {
      {"", Errc::disconnected},
      {"HTTP/1.1 200 OK\r\nContent-Le", Errc::disconnected},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", Errc::disconnected},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", Errc::disconnected},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Errc::disconnected},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
       Errc::disconnected},
      {"HTTP/1.1 200 OK\r\n\r\nhello", Errc::io},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", Errc::io},
      {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello", Errc::io},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       Errc::io},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\nhello\r\n", Errc::io},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXY\r\n0\r\n\r\n", Errc::io},
      {"SSH-2.0-OpenSSH_9.2\r\n\r\n", Errc::io},
  };
  OnLoop run;
  Client client;
  for (const auto& row : rows) {
    INFO(row.text);
    RawServer server({[&](RawPeer& peer) {
      peer.read_head();
      peer.send(row.text);
    }});
    CHECK(code_of(run(client.call(url_of(server), request(Method::post)))) == row.code);
  }
}

TEST_CASE("the word of something in between may end with its connection", "[http][client]") {
  RawServer server({[](RawPeer& peer) {
    peer.read_head();
    peer.send("HTTP/1.0 503 No server\r\nConnection: close\r\n\r\nnobody there");
  }});
  OnLoop run;
  Client client;
  const auto answer = run(client.call(url_of(server), request(Method::get)));
  REQUIRE(answer.has_value());
  CHECK(answer->status == 503);
  CHECK(answer->body == "nobody there");
}

TEST_CASE("HEAD, 204 and 304 have no body whatever they announce", "[http][client]") {
  RawServer server({[](RawPeer& peer) {
    peer.read_head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5000000000\r\n\r\n");
    peer.read_head();
    peer.send("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n");
    peer.read_head();
    peer.send("HTTP/1.1 204 No Content\r\n\r\n");
    peer.read_head();
    peer.send(kOk);
  }});
  OnLoop run;
  Client client;
  const auto head = run(client.call(url_of(server), request(Method::head)));
  REQUIRE(head.has_value());
  CHECK(head->field("Content-Length") == "5000000000");
  CHECK(run(client.call(url_of(server), request(Method::get)))->status == 304);
  CHECK(run(client.call(url_of(server), request(Method::get)))->status == 204);
  CHECK(run(client.call(url_of(server), request(Method::get)))->body == "ok");
  server.join();
  CHECK(server.accepted() == 1);
}

TEST_CASE("a stream's patience with its peer can be changed", "[http][client]") {
  const auto answer_late = [](RawPeer& peer) {
    peer.read_head();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    peer.send(kOk);
  };
  RawServer server({answer_late, answer_late});
  OnLoop run;
  const auto ask = [&](std::chrono::milliseconds later) -> Task<Status> {
    Client client;
    CallLimits limits;
    limits.stall = std::chrono::milliseconds(50);
    CO_TRY(auto stream, co_await client.open(url_of(server), request(Method::get), {}, limits));
    stream.set_stall(later);
    CO_TRY(const auto head, co_await stream.read_head());
    CHECK(head.status == 200);
    co_return Status();
  };
  CHECK(code_of(run(ask(std::chrono::milliseconds(50)))) == Errc::timeout);
  CHECK(run(ask(std::chrono::minutes(1))));
}

TEST_CASE("connections are kept, but not when the peer says close", "[http][client]") {
  RawServer server({[](RawPeer& peer) {
                      peer.read_head();
                      peer.send(kOk);
                      peer.read_head();
                      peer.send(
                          "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n2");
                    },
                    [](RawPeer& peer) {
                      peer.read_head();
                      peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n3");
                    }});
  OnLoop run;
  Client client;
  CHECK(run(client.call(url_of(server), request(Method::get)))->body == "ok");
  CHECK(run(client.call(url_of(server), request(Method::get)))->body == "2");
  CHECK(run(client.call(url_of(server), request(Method::get)))->body == "3");
}

TEST_CASE("a kept connection that the peer has closed is not used", "[http][client]") {
  std::promise<void> closed;
  RawServer server({[&](RawPeer& peer) {
                      peer.read_head();
                      peer.send(kOk);
                      peer.close();
                      closed.set_value();
                    },
                    [](RawPeer& peer) {
                      peer.read_head();
                      peer.send(kOk);
                    }});
  OnLoop run;
  Client client;
  CHECK(run(client.call(url_of(server), request(Method::post))).has_value());
  closed.get_future().wait();
  CHECK(run(client.call(url_of(server), request(Method::post))).has_value());
}

TEST_CASE("a kept connection that dies before an answer is replaced for reads only",
          "[http][client]") {
  const auto die_at_second = [](RawPeer& peer) {
    peer.read_head();
    peer.send(kOk);
    peer.read_head();
  };
  const auto answer = [](RawPeer& peer) {
    peer.read_head();
    peer.send(kOk);
  };
  OnLoop run;
  Client client;
  {
    RawServer server({die_at_second, answer});
    CHECK(run(client.call(url_of(server), request(Method::get))).has_value());
    CHECK(run(client.call(url_of(server), request(Method::get))).has_value());
    server.join();
    CHECK(server.accepted() == 2);
  }
  {
    RawServer server({die_at_second});
    CHECK(run(client.call(url_of(server), request(Method::get))).has_value());
    CHECK(code_of(run(client.call(url_of(server), request(Method::post)))) == Errc::disconnected);
  }
}

TEST_CASE("nobody at home is unavailable", "[http][client]") {
  std::uint16_t port = 0;
  {
    RawServer server({});
    port = server.port();
  }
  OnLoop run;
  Client client;
  const Url url{"127.0.0.1", port, "/"};
  CHECK(code_of(run(client.call(url, request(Method::get)))) == Errc::unavailable);
  const Url name{"no-such-host.invalid", 80, "/"};
  const auto unknown = run(client.call(name, request(Method::get)));
  REQUIRE_FALSE(unknown.has_value());
  CHECK((unknown.error().code == Errc::unavailable || unknown.error().code == Errc::timeout));
}

TEST_CASE("localhost is this machine, whatever the system knows of names", "[http][client]") {
  RawServer server({[](RawPeer& peer) {
    peer.read_head();
    peer.send(kOk);
  }});
  OnLoop run;
  Client client;
  const Url url{"localhost", server.port(), "/"};
  CHECK(run(client.call(url, request(Method::get))).has_value());
}

TEST_CASE("a call ends in time, also when bytes trickle in", "[http][client]") {
  OnLoop run;
  Client client;
  const CallLimits limits{.total = 200ms};
  const auto timed = [&](const std::function<void(RawPeer&)>& serve) {
    const auto took = test::fastest(2s, [&] {
      RawServer server({serve});
      const auto start = std::chrono::steady_clock::now();
      CHECK(code_of(run(client.call(url_of(server), request(Method::get), limits))) ==
            Errc::timeout);
      CHECK(std::chrono::steady_clock::now() - start >= 200ms);
    });
    CHECK(took < 2s);
  };
  SECTION("no answer") {
    timed([](RawPeer& peer) {
      peer.read_head();
      peer.closed_by_peer();
    });
  }
  SECTION("an answer without end") {
    timed([](RawPeer& peer) {
      peer.read_head();
      peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
      for (int i = 0; i < 50; ++i) {
        peer.send("x");
        std::this_thread::sleep_for(10ms);
      }
      peer.closed_by_peer();  // the client ends it, however late it comes to that
    });
  }
}

TEST_CASE("a call can be cancelled while it waits", "[http][client]") {
  bool closed = false;
  std::promise<void> asked;
  RawServer server({[&](RawPeer& peer) {
    peer.read_head();
    asked.set_value();
    closed = peer.closed_by_peer();
  }});
  OnLoop run;
  Client client;
  asio::cancellation_signal signal;
  auto task = [&]() -> Task<Errc> {
    co_await asio::this_coro::throw_if_cancelled(false);
    const auto answer = co_await client.call(url_of(server), request(Method::get));
    co_return answer ? Errc::internal : answer.error().code;
  };
  auto code = asio::co_spawn(run.loop().executor(), task(),
                             asio::bind_cancellation_slot(signal.slot(), asio::use_future));
  asked.get_future().wait();
  asio::post(run.loop().context(), [&] { signal.emit(asio::cancellation_type::terminal); });
  CHECK(code.get() == Errc::cancelled);
  server.join();
  CHECK(closed);
}

TEST_CASE("a request that would break the rules is not sent", "[http][client]") {
  OnLoop run;
  Client client;
  const Url url{"127.0.0.1", 1, "/"};
  const auto refused = [&](const ClientRequest& bad) {
    CHECK(code_of(run(client.call(url, bad))) == Errc::invalid_argument);
  };
  refused({Method::get, "", {}, ""});
  refused({Method::get, "/a b", {}, ""});
  refused({Method::get, "/a\r\nX: y", {}, ""});
  refused({Method::get, "/a", {{"X", "y\r\nZ: w"}}, ""});
  refused({Method::get, "/a", {{"X y", "z"}}, ""});
  refused({Method::get, "/a", {{"", "z"}}, ""});
  refused({Method::put, "/a", {{"content-length", "3"}}, "abc"});
  refused({Method::put, "/a", {{"Transfer-Encoding", "chunked"}}, "abc"});
  refused({Method::other, "/a", {}, ""});
}

TEST_CASE("an answer larger than the caller wants is refused", "[http][client]") {
  const auto serve = [](RawPeer& peer) {
    peer.read_head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + std::string(2000, 'x'));
    peer.closed_by_peer();
  };
  RawServer server({serve, serve});
  OnLoop run;
  Client client;
  CHECK(code_of(run(client.call(url_of(server), request(Method::get), {.body_bytes_max = 1999}))) ==
        Errc::body_too_large);
  CHECK(
      run(client.call(url_of(server), request(Method::get), {.body_bytes_max = 2000})).has_value());
  run([](Client& its_client) -> Task<int> {
    its_client.close_idle();
    co_return 0;
  }(client));
}

TEST_CASE("a stream waits for 100 Continue and sends a counted body", "[http][client]") {
  std::string body;
  RawServer server({[&](RawPeer& peer) {
    peer.read_head();
    peer.send("HTTP/1.1 100 Continue\r\n\r\n");
    body = peer.read_bytes(10);
    peer.send(kOk);
  }});
  OnLoop run;
  Client client;
  const auto put = [&]() -> Task<Result<std::string>> {
    ClientRequest head{Method::put, "/x", {{"Expect", "100-continue"}}, ""};
    CO_TRY(ClientStream stream, co_await client.open(url_of(server), head, 10));
    CO_TRY(const ClientResponse go_on, co_await stream.read_head());
    if (go_on.status != 100) co_return fail(Errc::internal, "{}", go_on.status);
    CO_TRY_OK(co_await write_text(stream, "01234"));
    const Status early = co_await stream.finish();
    if (early) co_return fail(Errc::internal, "a short body was ended");
    CO_TRY_OK(co_await write_text(stream, "56789"));
    const Status more = co_await write_text(stream, "x");
    if (more) co_return fail(Errc::internal, "a body was made longer than announced");
    CO_TRY_OK(co_await stream.finish());
    CO_TRY(const ClientResponse answer, co_await stream.read_head());
    if (answer.status != 200) co_return fail(Errc::internal, "{}", answer.status);
    const auto rest = co_await read_rest(stream, 1);
    co_return rest;
  };
  CHECK(run(put()).value() == "ok");
  server.join();
  CHECK(body == "0123456789");
}

TEST_CASE("a stream without length is sent in chunks", "[http][client]") {
  std::string seen;
  RawServer server({[&](RawPeer& peer) {
    seen = peer.read_until("0\r\n\r\n");
    peer.send(kOk);
  }});
  OnLoop run;
  Client client;
  const auto put = [&]() -> Task<Result<unsigned>> {
    CO_TRY(ClientStream stream,
           co_await client.open(url_of(server), request(Method::put), std::nullopt));
    CO_TRY_OK(co_await write_text(stream, "hello"));
    CO_TRY_OK(co_await write_text(stream, std::string(26, 'x')));
    CO_TRY_OK(co_await stream.finish());
    CO_TRY(const ClientResponse answer, co_await stream.read_head());
    co_return answer.status;
  };
  CHECK(run(put()).value() == 200);
  server.join();
  CHECK(seen.find("\r\nTransfer-Encoding: chunked\r\n") != std::string::npos);
  CHECK(seen.ends_with("\r\n\r\n5\r\nhello\r\n1a\r\n" + std::string(26, 'x') + "\r\n0\r\n\r\n"));
}

TEST_CASE("an answer that comes before the body's end can be read", "[http][client]") {
  RawServer server({[](RawPeer& peer) {
    peer.read_head();
    peer.send("HTTP/1.1 507 Full\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull");
  }});
  OnLoop run;
  Client client;
  const auto put = [&]() -> Task<Result<std::string>> {
    CO_TRY(ClientStream stream,
           co_await client.open(url_of(server), request(Method::put), 1U << 30U));
    const std::string buffer(1U << 20U, 'x');
    Status written;
    for (int i = 0; i < 1024 && written; ++i) written = co_await write_text(stream, buffer);
    if (written) co_return fail(Errc::internal, "1 GiB went nowhere");
    if (!stream.answer_ready()) co_return fail(Errc::internal, "no answer is ready");
    CO_TRY(const ClientResponse answer, co_await stream.read_head());
    const auto rest = co_await read_rest(stream, 100);
    co_return rest;
  };
  CHECK(run(put()).value() == "full");
}

TEST_CASE("a stream given up in the middle closes its connection", "[http][client]") {
  bool closed = false;
  RawServer server({[&](RawPeer& peer) {
                      peer.read_head();
                      peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
                      closed = peer.closed_by_peer();
                    },
                    [](RawPeer& peer) {
                      peer.read_head();
                      peer.send(kOk);
                    }});
  OnLoop run;
  Client client;
  const auto get = [&]() -> Task<Result<std::size_t>> {
    CO_TRY(ClientStream stream,
           co_await client.open(url_of(server), request(Method::get), std::nullopt));
    CO_TRY(const ClientResponse answer, co_await stream.read_head());
    std::byte buffer[2];
    const auto got = co_await stream.read_some(buffer);
    co_return got;
  };
  CHECK(run(get()).value() == 2);
  CHECK(run(client.call(url_of(server), request(Method::get)))->body == "ok");
  server.join();
  CHECK(closed);
}

TEST_CASE("client and server agree on long bodies both ways", "[http][client][server]") {
  OnLoop run;
  Server::Options options;
  options.name = "test";
  options.address = "127.0.0.1:0";
  options.node = "t[test]";
  options.handler = [](Exchange& exchange) -> Task<Status> {
    std::string body;
    std::string buffer(100'000, '\0');
    while (true) {
      CO_TRY(const std::size_t got,
             co_await exchange.read_some(std::as_writable_bytes(std::span(buffer))));
      if (got == 0) break;
      body.append(buffer, 0, got);
    }
    const bool chunked = exchange.head().chunked;
    const auto length = chunked ? std::nullopt : std::optional<std::uint64_t>(body.size());
    CO_TRY_OK(co_await exchange.begin(Response(200), length));
    for (std::string_view rest = body; !rest.empty();) {
      const auto part = rest.substr(0, 77'777);
      CO_TRY_OK(co_await exchange.write(part));
      rest.remove_prefix(part.size());
    }
    const Status ended = co_await exchange.finish();
    co_return ended;
  };
  Server server(run.loops(), options);
  REQUIRE(server.start().has_value());
  const Url url = parse_url(server.url()).value();

  Client client;
  const auto echo = [&](std::size_t size, bool chunked) -> Task<Result<bool>> {
    std::string body(size, '\0');
    for (std::size_t i = 0; i < size; ++i) body[i] = static_cast<char>(i * 31 / 7);
    const auto length = chunked ? std::nullopt : std::optional<std::uint64_t>(size);
    CO_TRY(ClientStream stream, co_await client.open(url, request(Method::put), length));
    CO_TRY_OK(co_await write_text(stream, body));
    CO_TRY_OK(co_await stream.finish());
    CO_TRY(const ClientResponse answer, co_await stream.read_head());
    CO_TRY(const std::string back, co_await read_rest(stream, 64UL * 1024));
    co_return answer.status == 200 && back == body;
  };
  for (const std::size_t size : {0UL, 1UL, 65'536UL, 3'000'001UL}) {
    for (const bool chunked : {false, true}) {
      INFO(size << (chunked ? " bytes in chunks" : " bytes"));
      const auto same = run(echo(size, chunked));
      REQUIRE(same.has_value());
      CHECK(*same);
    }
  }
  CHECK(server.open_connections() == 1);
  server.stop(1s);
}

}  // namespace http_client_test
}  // namespace tarn::http
