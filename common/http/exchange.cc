#include "common/http/exchange.h"

#include <array>
#include <charconv>
#include <ctime>

#include "common/api/status.h"
#include "common/base/encoding.h"
#include "common/base/event.h"
#include "common/base/random.h"
#include "common/http/connection.h"
#include "common/http/request_parser.h"

namespace tarn::http {
namespace {

/// Lines that follow the status line: made once a second and thread.
const std::string& common_lines() {
  thread_local std::int64_t second = 0;
  thread_local std::string text;
  if (const std::int64_t now = std::time(nullptr); now != second) {
    second = now;
    text = "\r\nDate: " + http_date(now) + "\r\nServer: Tarn\r\n";
  }
  return text;
}

std::string next_request_id() {
  thread_local std::uint64_t next = random_u64();
  return hex64(next++);
}

bool has_no_body(unsigned status) { return status == 204 || status == 304; }

}  // namespace

Exchange::Exchange(Connection& connection, RequestHead head)
    : connection_(connection), head_(std::move(head)), request_id_(next_request_id()) {
  body_done_ = !head_.has_body();
}

Exchange::~Exchange() { give_back(std::move(head_)); }

const std::string& Exchange::node() const noexcept { return connection_.shared().options.node; }

void Exchange::allow_pauses() noexcept { connection_.allow_pauses(); }

const std::string& Exchange::remote_address() const noexcept {
  return connection_.remote_address();
}

bool Exchange::body_complete() const noexcept { return body_done_; }

Task<Result<std::size_t>> Exchange::read_some(std::span<std::byte> into) {
  if (body_done_ || into.empty()) co_return std::size_t{0};
  if (head_.expects_continue && !continue_sent_ && connection_.buffered() == 0) {
    continue_sent_ = true;
    CO_TRY_OK(co_await connection_.send("HTTP/1.1 100 Continue\r\n\r\n", {}, false));
  }
  if (head_.chunked) {
    CO_TRY(const std::size_t got, co_await connection_.receive_chunked(into));
    body_bytes_read_ += got;
    body_done_ = got == 0;
    co_return got;
  }
  const std::uint64_t left = *head_.content_length - body_bytes_read_;
  const std::size_t want = std::min<std::uint64_t>(into.size(), left);
  CO_TRY(const std::size_t got, co_await connection_.receive(into.first(want)));
  body_bytes_read_ += got;
  body_done_ = body_bytes_read_ == *head_.content_length;
  co_return got;
}

Task<Result<std::string>> Exchange::read_all(std::size_t bytes_max) {
  if (head_.content_length.value_or(0) > bytes_max)
    co_return fail(Errc::body_too_large, "a body of {} bytes: at most {} are allowed here",
                   *head_.content_length, bytes_max);
  std::string out;
  std::string buffer(std::min(bytes_max + 1, 64UL * 1024), '\0');
  while (true) {
    CO_TRY(const std::size_t got, co_await read_some(std::as_writable_bytes(std::span(buffer))));
    if (got == 0) co_return out;
    if (out.size() + got > bytes_max)
      co_return fail(Errc::body_too_large, "a body of more than {} bytes is not allowed here",
                     bytes_max);
    out.append(buffer, 0, got);
  }
}

namespace {

void append_status_line(std::string& out, const RequestHead& asked, unsigned status) {
  out += asked.version == 10 ? "HTTP/1.0 " : "HTTP/1.1 ";
  out += std::to_string(status);
  out += ' ';
  out += api::reason_phrase(status);
  out += common_lines();
}

void append_length(std::string& out, std::uint64_t length) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), length).ptr;
  out.append("Content-Length: ").append(digits.data(), end).append("\r\n");
}

/// Ends the head, after its fields; then the body follows.
void append_connection_and_end(std::string& out, const RequestHead& asked) {
  if (!asked.keep_alive) {
    out += "Connection: close\r\n";
  } else if (asked.version == 10) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
}

}  // namespace

std::string Exchange::head_text(const Response& response, std::optional<std::uint64_t> length,
                                bool has_length) {
  std::string out;
  out.reserve(512 + response.lines.size());
  append_status_line(out, head_, response.status);
  for (const Field& field : response.fields) append_field(out, field.name, field.value);
  out += response.lines;
  append_field(out, "Tarn-Request", request_id_);
  if (has_length && length) {
    append_length(out, *length);
  } else if (has_length) {
    append_field(out, "Transfer-Encoding", "chunked");
  }
  append_connection_and_end(out, head_);
  return out;
}

/// Called when an answer goes out: a body that is no longer read may come or be on its way.
void Exchange::settle_unread_body() {
  if (!head_.has_body() || body_done_) return;
  // A body that has arrived in full need not cost the connection.
  if (head_.content_length && !head_.expects_continue &&
      *head_.content_length - body_bytes_read_ <= connection_.buffered()) {
    connection_.drop_buffered(*head_.content_length - body_bytes_read_);
    body_done_ = true;
  } else {
    head_.keep_alive = false;
  }
}

void Exchange::respond_now(const ResponseView& response) {
  settle_unread_body();
  status_ = response.status;
  response_started_ = true;
  const std::string_view body = head_.method == Method::head ? "" : response.body;
  thread_local std::string out;
  out.clear();
  append_status_line(out, head_, response.status);
  for (const auto& field : response.fields) append_field(out, field.name, field.value);
  append_field(out, "Tarn-Request", request_id_);
  append_length(out, response.body.size());
  append_connection_and_end(out, head_);
  out += body;
  response_bytes_ = body.size();
  // An error of the socket comes out when the rest is sent.
  const std::size_t sent = connection_.send_now(out, {}).value_or(0);
  response_complete_ = sent == out.size();
  if (!response_complete_) unsent_ = out.substr(sent);
}

Task<Status> Exchange::flush() {
  if (response_complete_) co_return Status();
  CO_TRY_OK(co_await connection_.send(unsent_, {}, false));
  response_complete_ = true;
  co_return Status();
}

Task<Status> Exchange::respond(Response response) {
  settle_unread_body();
  status_ = response.status;
  response_started_ = true;
  const bool with_body = head_.method != Method::head && !has_no_body(response.status);
  // HEAD may announce the length that GET would have: the caller has then set it.
  const bool own_length = !find_field(response.fields, "Content-Length").empty();
  const std::string head =
      head_text(response, response.body.size(), !own_length && !has_no_body(response.status));
  const std::string_view body = with_body ? std::string_view(response.body) : std::string_view();
  CO_TRY_OK(co_await connection_.send(head, std::as_bytes(std::span(body)), false));
  response_bytes_ = body.size();
  response_complete_ = true;
  co_return Status();
}

std::string Exchange::begin_text(const Response& head_only, std::optional<std::uint64_t> length) {
  if (head_.has_body() && !body_done_) head_.keep_alive = false;
  if (!length && head_.version == 10) head_.keep_alive = false;
  status_ = head_only.status;
  response_started_ = true;
  response_left_ = length;
  response_chunked_ = !length && head_.version == 11;
  const bool framed = length || response_chunked_;
  return head_text(head_only, length, framed);
}

Task<Status> Exchange::begin(Response head_only, std::optional<std::uint64_t> length) {
  const std::string head = begin_text(head_only, length);
  const bool empty = head_.method == Method::head || length == std::uint64_t{0};
  if (!empty) connection_.cork(true);
  CO_TRY_OK(co_await connection_.send(head, {}, !empty));
  if (head_.method == Method::head) response_complete_ = true;
  co_return Status();
}

Task<Result<std::uint64_t>> Exchange::begin_with(Response head_only, std::uint64_t length,
                                                 std::span<const std::byte> first) {
  const std::string head = begin_text(head_only, length);
  CO_TRY(const std::size_t sent, connection_.send_now(head, first));
  const std::uint64_t taken = sent > head.size() ? sent - head.size() : 0;
  if (taken < length) connection_.cork(true);
  if (sent < head.size())
    CO_TRY_OK(co_await connection_.send(std::string_view(head).substr(sent), {}, true));
  *response_left_ -= taken;
  response_bytes_ += taken;
  if (connection_.turn_is_over(0)) co_await connection_.yield();  // send_now() counted
  co_return taken;
}

Task<Status> Exchange::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) co_return Status();
  if (response_left_) {
    if (bytes.size() > *response_left_)
      co_return fail(Errc::internal, "more bytes than the answer announced");
    *response_left_ -= bytes.size();
  }
  if (response_chunked_) {
    const std::string size = fmt::format("{:x}\r\n", bytes.size());
    CO_TRY_OK(co_await connection_.send(size, bytes, true));
    CO_TRY_OK(co_await connection_.send("\r\n", {}, false));
    connection_.cork(false);  // a stream's parts leave as they come
  } else {
    CO_TRY_OK(co_await connection_.send({}, bytes, false));
  }
  response_bytes_ += bytes.size();
  co_return Status();
}

bool Exchange::closing() const noexcept { return connection_.shared().closing.load(); }

Task<bool> Exchange::pause_until(std::chrono::steady_clock::time_point deadline,
                                 EventListener& listener) {
  co_return co_await connection_.pause_until(deadline, listener);
}

Task<Result<std::uint64_t>> Exchange::send_file(int fd, std::uint64_t offset, std::uint64_t length,
                                                ResidentCheck resident) {
  if (!response_left_ || length > *response_left_)
    co_return fail(Errc::internal, "more bytes than the answer announced");
  CO_TRY(const std::uint64_t sent, co_await connection_.send_file(fd, offset, length, resident));
  *response_left_ -= sent;
  response_bytes_ += sent;
  co_return sent;
}

Task<Status> Exchange::finish() {
  if (head_.method == Method::head) co_return Status();
  if (response_left_.value_or(0) != 0)
    co_return fail(Errc::internal, "the answer is {} bytes short", *response_left_);
  if (response_chunked_) CO_TRY_OK(co_await connection_.send("0\r\n\r\n", {}, false));
  connection_.cork(false);  // a no-op if all left in one packet
  response_complete_ = true;
  co_return Status();
}

}  // namespace tarn::http
