#include "common/http/request_parser.h"

#include <cstring>

#include <catch2/catch.hpp>

namespace request_parser_test {

using namespace tarn;
using http::RequestParser;

/// Feeds `input` in steps of `step` bytes until the head is complete.
Result<bool> feed_head(RequestParser& parser, http::RequestHead& head, std::string_view input,
                       std::size_t step) {
  while (true) {
    const auto done = parser.read_head(head);
    if (!done || *done || input.empty()) return done;
    const auto room = parser.prepare();
    const std::size_t count = std::min({step, room.size(), input.size()});
    std::memcpy(room.data(), input.data(), count);
    parser.commit(count);
    input.remove_prefix(count);
  }
}

Errc refusal_of(const std::string& request) {
  const http::Limits limits;
  RequestParser parser(limits);
  http::RequestHead head;
  const auto done = feed_head(parser, head, request, request.size());
  INFO(request);
  REQUIRE_FALSE(done.has_value());
  return done.error().code;
}

TEST_CASE("parser: a head is the same however it is cut", "[http][parser]") {
  const std::string request =
      "\r\nPUT /b/o?x=1 HTTP/1.1\r\nHost: h:1\r\nContent-Length: 3\r\n"
      "Expect: 100-continue\r\n\r\nabc";
  const http::Limits limits;
  for (std::size_t step = 1; step <= request.size(); ++step) {
    RequestParser parser(limits);
    http::RequestHead head;
    const auto done = feed_head(parser, head, request, step);
    INFO("step " << step);
    REQUIRE(done);
    REQUIRE(*done);
    CHECK(head.method == http::Method::put);
    CHECK(head.target == "/b/o?x=1");
    CHECK(head.content_length == 3U);
    CHECK(head.expects_continue);
  }
}

TEST_CASE("parser: framing that could be read in two ways is refused", "[http][parser]") {
  const std::string start = "PUT /b/o HTTP/1.1\r\nHost: h\r\n";
  CHECK(refusal_of(start + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n") ==
        Errc::invalid_argument);
  CHECK(refusal_of(start + "Content-Length: 5, 5\r\n\r\n") == Errc::invalid_argument);
  CHECK(refusal_of(start + "Content-Length: +5\r\n\r\n") == Errc::invalid_argument);
  CHECK(refusal_of(start + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n") ==
        Errc::invalid_argument);
  CHECK(refusal_of(start + "Transfer-Encoding: gzip, chunked\r\n\r\n") == Errc::invalid_argument);
  CHECK(refusal_of(start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n") ==
        Errc::invalid_argument);
  CHECK(refusal_of("PUT /b/o HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") ==
        Errc::invalid_argument);
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: h\n\r\n") == Errc::invalid_argument);
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n") == Errc::invalid_argument);
  CHECK(refusal_of("GET / HTTP/1.1\r\n\r\n") == Errc::invalid_argument);
  CHECK(refusal_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == Errc::version_unsupported);
}

TEST_CASE("parser: limits of a head have their own errors", "[http][parser]") {
  CHECK(refusal_of("GET /" + std::string(9000, 'x') + " HTTP/1.1\r\nHost: h\r\n\r\n") ==
        Errc::uri_too_long);
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(17'000, 'x') + "\r\n\r\n") ==
        Errc::header_too_large);
  // Also when the end of the head never comes, and the request line has been taken long ago.
  const std::string endless = "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(60'000, 'x');
  for (const std::size_t step : {100U, 5'000U, 16'384U}) {
    const http::Limits limits;
    RequestParser parser(limits);
    http::RequestHead head;
    const auto done = feed_head(parser, head, endless, step);
    INFO("step " << step);
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code == Errc::header_too_large);
  }
  std::string many = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 101; ++i) many += "X" + std::to_string(i) + ": y\r\n";
  CHECK(refusal_of(many + "\r\n") == Errc::header_too_large);
}

TEST_CASE("parser: a trailer that is cut behind the last chunk waits for more", "[http][parser]") {
  const http::Limits limits;
  RequestParser parser(limits);
  http::RequestHead head;
  const std::string request = "PUT /b/o HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  REQUIRE(feed_head(parser, head, request, request.size()));
  std::string into(64, '\0');
  std::string body;
  bool done = false;
  for (const char byte : std::string("3\r\nabc\r\n0\r\nTrailer: t\r\n\r\n")) {
    parser.prepare()[0] = static_cast<std::byte>(byte);
    parser.commit(1);
    const auto decoded = parser.read_chunked(std::as_writable_bytes(std::span(into)));
    REQUIRE(decoded);
    body.append(into, 0, decoded->bytes);
    done = decoded->done;
  }
  // Bytes that waited because too little had come are handed out now.
  while (!done) {
    const auto decoded = parser.read_chunked(std::as_writable_bytes(std::span(into)));
    REQUIRE(decoded);
    body.append(into, 0, decoded->bytes);
    done = decoded->done;
    REQUIRE((done || decoded->bytes > 0));
  }
  CHECK(body == "abc");
}

TEST_CASE("parser: an old proxy's Proxy-Connection keeps no HTTP/1.0 connection",
          "[http][parser]") {
  const auto keeps = [](const std::string& fields) {
    const http::Limits limits;
    RequestParser parser(limits);
    http::RequestHead head;
    const std::string request = "GET / HTTP/1.0\r\nHost: h\r\n" + fields + "\r\n";
    REQUIRE(feed_head(parser, head, request, request.size()));
    return head.keep_alive;
  };
  CHECK_FALSE(keeps(""));
  CHECK(keeps("Connection: Keep-Alive\r\n"));
  CHECK_FALSE(keeps("Proxy-Connection: keep-alive\r\n"));
  CHECK_FALSE(keeps("Connection: close\r\nProxy-Connection: keep-alive\r\n"));
}

TEST_CASE("parser: heads that are used again stay small", "[http][parser]") {
  const http::Limits limits;
  const auto parse = [&](const std::string& request) {
    RequestParser parser(limits);
    http::RequestHead head;
    REQUIRE(feed_head(parser, head, request, request.size()));
    return head;
  };
  const std::string line = "GET /b/o HTTP/1.1\r\nHost: h\r\n";
  constexpr int kFields = 90;
  // Another field is long each time: what is kept of one head must not add up.
  for (int longest = 0; longest < kFields; ++longest) {
    std::string request = line;
    for (int i = 0; i < kFields; ++i)
      request += "X: " + std::string(i == longest ? 15'000 : 1, 'x') + "\r\n";
    http::give_back(parse(request + "\r\n"));
  }
  std::string request = line;
  for (int i = 0; i < kFields; ++i) request += "X: y\r\n";
  std::size_t bytes = 0;
  for (const auto& field : parse(request + "\r\n").fields) bytes += field.value.capacity();
  CHECK(bytes < 64'000);
}

}  // namespace request_parser_test
